"""Containers of bubblewrap: namespaces for a command that is executed, by a program that some
systems trust with them where they do not trust others. Source: bwrap(1).
"""

import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from contextlib import nullcontext

from phantora_py.isolation import container
from phantora_py.isolation.engines import DEVICES, EngineFailed, files_of
from phantora_py.isolation.nodes import SHARED, Node, Nodes

_TRIAL = ["--unshare-ipc", "--unshare-pid", "--unshare-uts", "--dev-bind", "/", "/"]
_TRIAL += ["--proc", "/proc", "--", "/bin/true"]
_PROBE_LIMIT_S = 20.0


def find() -> list[str]:
    """The program, with the option that this user needs. Raises: EngineFailed if it is not there or
    not permitted to do its work.
    """
    path = shutil.which("bwrap")
    if path is None:
        raise EngineFailed("bwrap is not installed (Debian, Ubuntu, Fedora: package bubblewrap)")
    # It sees by itself that an ordinary user needs a user namespace, but not that a root without
    # privilege does. With privilege, it would do without the rights to other users' files.
    for words in ([path], [path, "--unshare-user"]):
        done = subprocess.run(
            [*words, *_TRIAL], capture_output=True, text=True, timeout=_PROBE_LIMIT_S, check=False
        )
        if done.returncode == 0:
            return words
    raise EngineFailed(done.stderr.strip() or f"bwrap ended with status {done.returncode}")


class Bwrap:
    """Starts containers in namespaces of their node, where those may be made without bwrap."""

    def __init__(self, namespaces: frozenset[str], writable: Sequence[str] | None) -> None:
        """`writable`: see `container.enter`."""
        self._program = find()
        self._writable = writable
        self._nodes: Nodes | None = None
        if "net" in namespaces:
            if "user" in namespaces:
                container.enter(frozenset({"user"}), None)
            self._nodes = Nodes(frozenset({*SHARED, "mnt"}))
        self._processes: list[subprocess.Popen[bytes]] = []

    def announce(self, node: Node) -> None:
        """Makes a node's namespaces."""
        if self._nodes is not None:
            self._nodes.add(node)

    def start(self, node: Node, command: Sequence[str]) -> None:
        """Starts a container."""
        words = [*self._program, *self._options(node), "--", *command]
        with nullcontext() if self._nodes is None else self._nodes.visit(node.name):
            self._processes.append(subprocess.Popen(words, stdin=subprocess.DEVNULL))

    def check(self) -> None:
        """Raises: EngineFailed if a container has ended."""
        for process in self._processes:
            if process.poll() is not None:
                raise EngineFailed(f"bwrap ended with status {process.returncode}; see above")

    def close(self) -> None:
        """Ends all containers; with its pid namespace goes what is in it."""
        for process in self._processes:
            process.send_signal(signal.SIGKILL)
            process.wait()

    def _options(self, node: Node) -> list[str]:
        options = ["--die-with-parent", "--unshare-pid"]
        if self._writable is None:
            options += ["--bind", "/", "/"]
        else:
            options += ["--ro-bind", "/", "/"]
            for directory in self._writable:
                options += ["--bind", directory, directory]
        options += ["--dev-bind", DEVICES, DEVICES, "--proc", "/proc"]
        if self._nodes is None:
            options += ["--unshare-ipc", "--unshare-uts", "--hostname", node.name]
        for source, target in files_of(node):
            options += ["--bind", source, target]
        return [*options, "--chdir", os.getcwd()]
