"""Phantora: runs an unchanged PyTorch training command on a virtual GPU cluster.

`phantora_py.cli` is where a command starts; `phantora_py.runs.run` carries `phantora run` out.
`mark_iteration` is for programs that want to say themselves what an iteration is; `run` and `open`
are for notebooks and scripts (docs/notebooks.md).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from phantora_py.rank.markers import mark_iteration

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from phantora_py.api import Run, RunOptions

__all__ = ["__version__", "mark_iteration", "open", "run"]
__version__ = "0.1.0"


# Programs that mark their iterations import this package too, and need nothing of what follows.


def open(path: str | os.PathLike[str]) -> Run:
    """The data file of a run (docs/data-file.md). Raises: sim_server.errors.UsageError."""
    from pathlib import Path  # noqa: PLC0415

    from phantora_py.api import Run  # noqa: PLC0415

    return Run(Path(path))


def run(
    command: Sequence[str | os.PathLike[str]],
    *,
    env: Mapping[str, str] | None = None,
    **options: Unpack[RunOptions],
) -> Run:
    """Runs a command as `phantora run` does and waits for it; `env`: variables that it gets besides
    this process's. The options are those of the command line, with `_` for `-`.

    Raises: sim_server.errors.PhantoraError of the run's kind, with its message and `exit_code`;
    TypeError for an option that there is not.
    """
    from phantora_py.api import start  # noqa: PLC0415

    return start(command, env or {}, options)
