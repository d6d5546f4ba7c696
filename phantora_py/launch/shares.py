"""Which host has which ranks of a run on several hosts."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from phantora_py.launch.layout import RunLayout
from sim_server.errors import UsageError


@dataclass(frozen=True)
class Share:
    """One host's part of a run. `host`: its name; `index`: its place among the run's hosts."""

    host: str
    index: int
    ranks: tuple[int, ...]


class Engine(Protocol):
    """Says which hosts there are, and starts a command on one."""

    def choose(self, hosts: str | None, file: Path | None) -> list[str]:
        """Those of a run in the order of its ranks; ours is the first. `hosts`, `file`: of the
        options. They are held until `close`. Raises: UsageError.
        """

    def command(self, host: str, words: Sequence[str]) -> list[str]:
        """What runs `words` there, with our standard input, output and error."""

    def explain(self, host: str, status: int, said: str) -> str | None:
        """Why there was nothing to run, if that is so. `status`: exit code, or minus the signal;
        `said`: on standard error.
        """

    def close(self) -> None:
        """The run has ended."""


@dataclass(frozen=True)
class Hosts:
    """The hosts of a run. `shares`: of all, the first is ours. `address`: where the server listens.
    `engine`: what starts the agents of the others.
    """

    shares: tuple[Share, ...]
    address: str
    engine: Engine


def divide(hosts: Sequence[str], layout: RunLayout, live_ranks: Sequence[int]) -> list[Share]:
    """Neighbouring simulated nodes go to one host, and to each about as many as to any other.

    Raises: UsageError if there is a host without a node.
    """
    nodes = sorted({layout.node(rank) for rank in live_ranks})
    if len(hosts) > len(nodes):
        raise UsageError(
            f"The run has {len(nodes)} simulated nodes with ranks that run, and {len(hosts)} hosts "
            "were named: a node stays whole on one host, so name fewer, or use more --nodes."
        )
    shares = []
    for index, host in enumerate(hosts):
        first, end = (len(nodes) * place // len(hosts) for place in (index, index + 1))
        own = set(nodes[first:end])
        ranks = tuple(rank for rank in live_ranks if layout.node(rank) in own)
        shares.append(Share(host, index, ranks))
    return shares
