"""What notebooks and scripts use: runs that are started or opened, and their comparison.

`phantora_py` has it as `run` and `open` (docs/notebooks.md).
"""

from phantora_py.api.compared import Compared
from phantora_py.api.options import RunOptions
from phantora_py.api.run import Run
from phantora_py.api.started import start

__all__ = ["Compared", "Run", "RunOptions", "start"]
