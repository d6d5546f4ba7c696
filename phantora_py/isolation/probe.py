"""Finds out which isolation this machine permits, by trying each primitive in a child that is
thrown away.
"""

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field

from phantora_py.isolation import container, system
from sim_server.errors import UsageError

PRIMITIVES = ("mnt", "uts", "ipc", "pid")
TIERS = ("T0", "T1", "T2", "T3")
_TIER_MEANING = {
    "T3": "own mount, host name, IPC and process namespaces",
    "T2": "own mount, host name and IPC namespaces",
    "T1": "some namespaces of their own",
    "T0": "plain processes",
}


@dataclass(frozen=True)
class Isolation:
    """The isolation of a run. `denied`: why a primitive is not used, by its name."""

    namespaces: frozenset[str]
    denied: dict[str, str] = field(default_factory=dict)

    @property
    def tier(self) -> str:
        """T3 (all), T2 (all but pid), T1 (some) or T0 (none)."""
        own = self.namespaces & set(PRIMITIVES)
        if own == set(PRIMITIVES):
            return "T3"
        if own == set(PRIMITIVES) - {"pid"}:
            return "T2"
        return "T1" if own else "T0"

    @property
    def reason(self) -> str:
        """What the ranks have, and why not more, for the report."""
        missing = "; ".join(f"no {name}: {why}" for name, why in self.denied.items())
        text = f"{_TIER_MEANING[self.tier]}; the network is the machine's own"
        return f"{text}; {missing}" if missing else text


def probe() -> Isolation:
    """The most this machine permits. A user namespace is used only where the caller lacks the
    privilege.
    """
    denied: dict[str, str] = {}
    user: frozenset[str] = frozenset()
    if _try(lambda: container.enter(frozenset({"mnt"}), None)) is not None:
        failure = _try(lambda: container.enter(frozenset({"user"}), None))
        if failure is not None:
            denied["user"] = failure
            return Isolation(frozenset(), denied)
        user = frozenset({"user"})
    granted = set(user)
    for name in PRIMITIVES:
        failure = _try(lambda name=name: _use(name, user))  # type: ignore[misc]
        if failure is None:
            granted.add(name)
        else:
            denied[name] = failure
    if granted == {"user"}:
        granted.clear()
    return Isolation(frozenset(granted), denied)


def choose(setting: str) -> Isolation:
    """The isolation for a run: `auto`, `process` (none) or `require:TIER`.

    Raises: UsageError for another setting, or if the required tier is not to be had.
    """
    if setting == "process":
        return Isolation(frozenset(), {"all": "--isolation process"})
    wanted = setting.removeprefix("require:")
    if setting != "auto" and (wanted == setting or wanted not in TIERS):
        raise UsageError(
            f"--isolation takes auto, process or require:TIER with one of {', '.join(TIERS)}, "
            f"not {setting!r}."
        )
    found = probe()
    if setting != "auto" and TIERS.index(found.tier) < TIERS.index(wanted):
        raise UsageError(
            f"Isolation {wanted} was required, but this machine permits {found.tier} "
            f"({found.reason}). See: phantora doctor"
        )
    return found


def _use(name: str, user: frozenset[str]) -> None:
    """Uses a primitive as a rank would; `pid` is of use only with a /proc that shows it."""
    needs = {"pid": {"mnt", "pid"}}.get(name, {name})
    container.enter(user | needs, None)
    if name == "mnt":
        with tempfile.NamedTemporaryFile() as file:
            system.mount(file.name, "/etc/hosts", "", system.MS_BIND)
    elif name == "pid":
        failure = _try(container.mount_proc)
        if failure is not None:
            raise OSError(failure)


def _try(action: Callable[[], None]) -> str | None:
    """Runs `action` in a child; what went wrong there, or None."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 0
        try:
            action()
        except OSError as error:
            os.write(writer, (error.strerror or str(error)).encode())
            status = 1
        finally:
            os._exit(status)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        message = pipe.read().decode()
    _, status = os.waitpid(pid, 0)
    if status == 0:
        return None
    return message or f"the probe ended with status {os.waitstatus_to_exitcode(status)}"
