"""The isolation that a run has: what this machine permits of what was asked for."""

from dataclasses import dataclass, field

from phantora_py.isolation import attempts
from phantora_py.isolation.attempts import PRIMITIVES
from sim_server.errors import UsageError

TIERS = ("T0", "T1", "T2", "T3")
NETWORKS = ("own", "host")
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
    granted, denied = attempts.find_primitives(network)
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
