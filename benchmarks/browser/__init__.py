"""From key press to paint in JupyterLab: an explorer, its peers, and the floor below them all."""
