"""Finds out which isolation this machine permits, by trying each primitive in a child that is
thrown away.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field

from phantora_py.isolation import container, nodes, system
from phantora_py.isolation.names import Names
from phantora_py.isolation.nodes import Node, Nodes
from sim_server.errors import UsageError

PRIMITIVES = ("mnt", "uts", "ipc", "pid", "net")
TIERS = ("T0", "T1", "T2", "T3")
NETWORKS = ("own", "host")
_MOUNT_PROC = (
    "import sys; sys.path[:0] = sys.argv[1:]; "
    "from phantora_py.isolation.container import mount_proc; mount_proc()"
)
_WORDS = {"mnt": "mount", "uts": "host name", "ipc": "IPC", "pid": "process", "net": "network"}


@dataclass(frozen=True)
class Isolation:
    """The isolation of a run. `denied`: why a primitive is not used, by its name. `network`: which
    was wanted.
    """

    namespaces: frozenset[str]
    denied: dict[str, str] = field(default_factory=dict)
    network: str = "own"
    backend: str = "native"

    @property
    def tier(self) -> str:
        """T3 (all that is wanted), T2 (all but pid), T1 (some) or T0 (none)."""
        own = self.namespaces & set(PRIMITIVES)
        missing = set(PRIMITIVES) - own - ({"net"} if self.network == "host" else set())
        if not own:
            return "T0"
        if not missing:
            return "T3"
        return "T2" if missing == {"pid"} else "T1"

    @property
    def own_network(self) -> bool:
        """Whether simulated nodes have a network of their own."""
        return "net" in self.namespaces

    @property
    def named(self) -> bool:
        """Whether ranks see their node's name, and find the others by theirs."""
        return {"mnt", "uts"} <= self.namespaces

    @property
    def reason(self) -> str:
        """What the ranks have, and why not more, for the report."""
        own = [_WORDS[name] for name in PRIMITIVES if name in self.namespaces]
        parts = [f"containers of {self.backend}"] if self.backend != "native" else []
        parts += [f"own {', '.join(own)} namespaces" if own else "plain processes"]
        if not self.own_network:
            chosen = " (--network host)" if self.network == "host" else ""
            parts.append(f"the network is the machine's own{chosen}")
        parts += [f"no {name}: {why}" for name, why in self.denied.items()]
        return "; ".join(parts)


def probe(network: str = "own") -> Isolation:
    """The most this machine permits. A user namespace is used only where the caller lacks the
    privilege.
    """
    denied: dict[str, str] = {}
    user: frozenset[str] = frozenset()
    if attempt(lambda: container.enter(frozenset({"mnt"}), None)) is not None:
        failure = attempt(lambda: container.enter(frozenset({"user"}), None))
        if failure is not None:
            denied["user"] = failure
            return Isolation(frozenset(), denied, network)
        user = frozenset({"user"})
    granted = set(user)
    for name in PRIMITIVES:
        if name == "net" and network == "host":
            continue
        if name == "net" and not {"mnt", "uts"} <= granted:
            failure = "without mnt and uts its nodes would have no names"
        else:
            failure = attempt(lambda name=name: _use(name, user))  # type: ignore[misc]
        if failure is None:
            granted.add(name)
        else:
            denied[name] = failure
    if granted == {"user"}:
        granted.clear()
    return Isolation(frozenset(granted), denied, network)


def choose(setting: str, network: str = "own") -> Isolation:
    """The isolation for a run: `auto`, `process` (none) or `require:TIER`.

    Raises: UsageError for another setting, or if the required tier is not to be had.
    """
    if setting == "process":
        return Isolation(frozenset(), {"all": "--isolation process"}, network)
    return require(setting, probe(network))


def require(setting: str, found: Isolation) -> Isolation:
    """What was found, if it satisfies `auto` or `require:TIER`. Raises: UsageError if not."""
    wanted = setting.removeprefix("require:")
    if setting != "auto" and (wanted == setting or wanted not in TIERS):
        raise UsageError(
            f"--isolation takes auto, process or require:TIER with one of {', '.join(TIERS)}, "
            f"not {setting!r}."
        )
    if setting != "auto" and TIERS.index(found.tier) < TIERS.index(wanted):
        raise UsageError(
            f"Isolation {wanted} was required, but this machine permits {found.tier} "
            f"({found.reason}). See: phantora doctor"
        )
    return found


def _use(name: str, user: frozenset[str]) -> None:
    """Uses a primitive as a rank would; `pid` is of use only with a /proc that shows it."""
    container.enter(user | {"mnt": {"mnt"}, "pid": {"mnt", "pid"}}.get(name, set()), None)
    if name == "mnt":
        with tempfile.NamedTemporaryFile() as file:
            system.mount(file.name, "/etc/hosts", "", system.MS_BIND)
    elif name == "pid":
        _mount_proc_as_first()
    else:
        # A name is given only where there is a hosts file for it.
        made = Nodes(frozenset({name, "mnt"}))
        made.add(Node(nodes.node_name(0), nodes.node_address(0, own_network=True), "", ""))
        if name == "net":
            Names()


def _mount_proc_as_first() -> None:
    """In a new program, the first one of the calling process's new pid namespace. A fork would not
    do: who unshares `pid` can start no thread, and gRPC, which starts its threads again after a
    fork, aborts the process then. Raises: OSError.
    """
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", _MOUNT_PROC, *sys.path],
        check=False,
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"]
        raise OSError(lines[-1])


def attempt(action: Callable[[], None]) -> str | None:
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
    return message or f"the probe ended with status {os.waitstatus_to_exitcode(status)}"
