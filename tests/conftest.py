"""What every test may count on."""

import os

# Set before anything imports jupyter_core, which warns of its old folders otherwise.
os.environ.setdefault("JUPYTER_PLATFORM_DIRS", "1")
