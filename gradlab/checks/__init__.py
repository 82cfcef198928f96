"""Checking gradients: against the slope, against a declared backward, in every mode."""

from gradlab.checks.gradients import check_gradient as check_gradient
from gradlab.checks.modes import check_modes as check_modes
from gradlab.checks.surrogates import check_surrogate as check_surrogate
