"""The run directory: what the processes of one run share through the file system, gone when the run
is.
"""

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from phantora_py.isolation.names import resolver_text
from phantora_py.isolation.nodes import node_address, node_name
from phantora_py.launch import limits, sweeper
from sim_server.processes.signals import uninterrupted

_SWEEP_LIMIT_S = 20


@dataclass(frozen=True)
class RunDirectory:
    """Paths in the run directory. Channels lie beside them as rank-<r>.channel and switchboard."""

    path: Path

    @property
    def settings(self) -> Path:
        return self.path / "shim.conf"

    @property
    def hosts(self) -> Path:
        return self.path / "hosts"

    @property
    def resolver(self) -> Path:
        return self.path / "resolv.conf"

    @property
    def launches(self) -> Path:
        """csrc/shim/launch/launch_keeper.h; not there in a run without a GPU."""
        return self.path / "launches"

    @property
    def host_gaps(self) -> Path:
        return self.path / "host-gaps"

    @property
    def server_socket(self) -> Path:
        return self.path / "server.sock"

    @property
    def server_output(self) -> Path:
        return self.path / "server.output"

    @property
    def token(self) -> Path:
        """What our own agent shows our own server; only this user can read it."""
        return self.path / "token"

    @property
    def offer(self) -> Path:
        """What our own server simulates (sim_server/access/offer.py)."""
        return self.path / "offer.json"


@contextmanager
def run_directory(ranks: int, partial: Path, output: Path) -> Iterator[RunDirectory]:
    """Makes the directory, and removes it with every process that belongs to it, however the run
    ends. If a data file `partial` is left then, because phantora was killed, it becomes `output`.
    """
    watcher = None
    try:
        with uninterrupted():
            path = Path(tempfile.mkdtemp(prefix="phantora-", dir=limits.find_room(ranks)))
            watcher = _start_sweeper(path, partial, output)
        yield RunDirectory(path)
    finally:
        if watcher is not None:
            assert watcher.stdin is not None
            watcher.stdin.close()
            if watcher.wait(_SWEEP_LIMIT_S) != 0:
                # Somebody killed it. Our own processes have been waited for.
                shutil.rmtree(path, ignore_errors=True)


def _start_sweeper(path: Path, partial: Path, output: Path) -> "subprocess.Popen[bytes]":
    """It is done when our end of the pipe closes.

    A session of its own and the signals that are blocked now keep Ctrl-C from it, a kill of the
    process group and a terminal that closes.
    """
    try:
        return subprocess.Popen(
            [
                *(sys.executable, "-I", "-S", sweeper.__file__, str(path)),
                *(str(partial.absolute()), str(output.resolve())),
            ],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError:
        path.rmdir()
        raise


def present() -> dict[str, str]:
    """The present time, as settings of the shim: where the clocks of the program start."""
    return {
        "epoch.realtime_ns": str(time.time_ns()),
        "epoch.monotonic_ns": str(time.monotonic_ns()),
    }


def write_settings(
    directory: RunDirectory, settings: Mapping[str, str], epoch: Mapping[str, str]
) -> None:
    """Writes shim.conf. `epoch`: of `present`."""
    directory.settings.write_text(_settings_text({**settings, **epoch}), encoding="utf-8")


def write_rank_settings(directory: RunDirectory, rank: int, settings: Mapping[str, str]) -> None:
    """Writes rank-<r>.conf: what is different for one rank."""
    path = directory.path / f"rank-{rank}.conf"
    path.write_text(_settings_text(settings), encoding="utf-8")


def _settings_text(settings: Mapping[str, str]) -> str:
    return "".join(f"{key} = {value}\n" for key, value in sorted(settings.items()))


def write_hosts(directory: RunDirectory, nodes: int, own_network: bool) -> None:
    """The /etc/hosts of ranks: every node, which comes first if it is asked for, and the machine's
    own.
    """
    own = Path("/etc/hosts").read_text(encoding="utf-8", errors="replace")
    names = "".join(
        f"{node_address(node, own_network)} {node_name(node)}\n" for node in range(nodes)
    )
    directory.hosts.write_text(names + own, encoding="utf-8")
    if own_network:
        directory.resolver.write_text(resolver_text(), encoding="utf-8")
