"""Phantora: runs an unchanged PyTorch training command on a virtual GPU cluster.

`phantora_py.cli` is where a command starts; `phantora_py.runs.run` carries `phantora run` out.
`mark_iteration` is for programs that want to say themselves what an iteration is; `open` is for
those that read data files.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from phantora_py.rank.markers import mark_iteration

if TYPE_CHECKING:
    from phantora_py.tables import Run

__all__ = ["__version__", "mark_iteration", "open"]
__version__ = "0.1.0"


def open(path: str | os.PathLike[str]) -> Run:
    """The data file of a run (docs/data-file.md). Raises: sim_server.errors.UsageError."""
    # Programs that mark their iterations import this package too, and need nothing of the reader.
    from pathlib import Path  # noqa: PLC0415

    from phantora_py.tables import Run  # noqa: PLC0415

    return Run(Path(path))
