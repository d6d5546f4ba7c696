"""Where Python's multiprocessing keeps its sockets: in the run directory, which is removed at the
end of the run. A process that is killed leaves a /tmp/pymp-* behind otherwise.
"""

import os
import tempfile
from pathlib import Path
from types import ModuleType

# With the names of directory and socket that multiprocessing adds, and a socket's 107 bytes.
_MOST_PATH_BYTES = 70


def keep_in(run_dir: Path, util: ModuleType) -> None:
    """`util`: multiprocessing.util, of this process and of those that it forks."""
    if len(os.fsencode(run_dir)) > _MOST_PATH_BYTES:
        return

    def get_temp_dir() -> str:
        config = util.process.current_process()._config
        if config.get("tempdir") is None:
            config["tempdir"] = tempfile.mkdtemp(prefix="pymp-", dir=run_dir)
        return str(config["tempdir"])

    util.get_temp_dir = get_temp_dir  # type: ignore[attr-defined]
