"""Tries what isolation needs, each primitive in a child that is thrown away.

All of it happens in a new process with one thread. A fork of the calling process would not do: its
libraries may have threads and handlers for forks (gRPC has both), which end a child that is in
other namespaces.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

from phantora_py.isolation import container, nodes, system
from phantora_py.isolation.names import Names
from phantora_py.isolation.nodes import Node, Nodes

PRIMITIVES = ("mnt", "uts", "ipc", "pid", "net")
_PROGRAM = (
    "import sys; sys.path[:0] = sys.argv[2:]; "
    "from phantora_py.isolation.attempts import main; main(sys.argv[1])"
)


def find_primitives(network: str) -> tuple[list[str], dict[str, str]]:
    """The namespaces that this machine permits with `--network`, and why the others are denied, by
    name. `user` is among the first where it is needed for the others.
    """
    granted, denied = _in_a_new_process("find_primitives", network)
    return granted, denied


def protect(namespaces: Sequence[str], writable: Sequence[str]) -> str | None:
    """Why files outside of the directories `writable` cannot be made read-only; None: they can."""
    denied: str | None = _in_a_new_process("protect", list(namespaces), list(writable))
    return denied


def main(request: str) -> None:
    """The new process: prints the answer to a request of `_in_a_new_process` as JSON."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # who asked was killed: nobody is to be told
    name, *arguments = json.loads(request)
    action: Callable[..., Any] = _find_primitives if name == "find_primitives" else _protect
    try:
        print(json.dumps({"answer": action(*arguments)}))
    except OSError as error:
        print(json.dumps({"error": [error.errno, error.strerror]}))


def _in_a_new_process(name: str, *arguments: object) -> Any:
    """Raises: OSError where a process or its pipe is not to be had."""
    request = json.dumps([name, *arguments])
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", _PROGRAM, request, *sys.path],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # An interrupt is for the caller, who then ends this process.
    )
    reply = json.loads(done.stdout)
    if "error" in reply:
        raise OSError(*reply["error"])
    return reply["answer"]


def _find_primitives(network: str) -> tuple[list[str], dict[str, str]]:
    denied: dict[str, str] = {}
    user: frozenset[str] = frozenset()
    if _attempt(lambda: container.enter(frozenset({"mnt"}), None)) is not None:
        failure = _attempt(lambda: container.enter(frozenset({"user"}), None))
        if failure is not None:
            return [], {"user": failure}
        user = frozenset({"user"})
    granted = set(user)
    for name in PRIMITIVES:
        if name == "net" and network == "host":
            continue
        if name == "net" and not {"mnt", "uts"} <= granted:
            failure = "without mnt and uts its nodes would have no names"
        else:
            failure = _attempt(lambda name=name: _use(name, user))  # type: ignore[misc]
        if failure is None:
            granted.add(name)
        else:
            denied[name] = failure
    if granted == {"user"}:
        granted.clear()
    return sorted(granted), denied


def _protect(namespaces: Sequence[str], writable: Sequence[str]) -> str | None:
    return _attempt(lambda: container.enter(frozenset(namespaces), None, writable))


def _use(name: str, user: frozenset[str]) -> None:
    """Uses a primitive as a rank would; `pid` is of use only with a /proc that shows it."""
    container.enter(user | {"mnt": {"mnt"}, "pid": {"mnt", "pid"}}.get(name, set()), None)
    if name == "mnt":
        with tempfile.NamedTemporaryFile() as file:
            system.mount(file.name, "/etc/hosts", "", system.MS_BIND)
    elif name == "pid":
        # The first process of the new namespace is the next child.
        failure = _attempt(container.mount_proc)
        if failure is not None:
            raise OSError(failure)
    else:
        # A name is given only where there is a hosts file for it.
        made = Nodes(frozenset({name, "mnt"}))
        made.add(Node(nodes.node_name(0), nodes.node_address(0, own_network=True), "", ""))
        if name == "net":
            Names()


def _attempt(action: Callable[[], None]) -> str | None:
    """Runs `action` in a child that is thrown away; what went wrong there, or None."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            action()
            status = 0
        except Exception as error:
            message = error.strerror if isinstance(error, OSError) else repr(error)
            os.write(writer, (message or str(error)).encode())
        finally:
            os._exit(status)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        message = pipe.read().decode()
    _, status = os.waitpid(pid, 0)
    if status == 0:
        return None
    return message or f"the attempt ended with status {os.waitstatus_to_exitcode(status)}"
