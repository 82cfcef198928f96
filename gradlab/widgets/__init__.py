"""Figures and controls for notebooks: the only rooms, with exercises, that know of widgets."""
