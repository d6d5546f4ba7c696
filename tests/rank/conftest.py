"""The stand-in run of the shim's tests serves the ranks' tests too."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "shim"))
