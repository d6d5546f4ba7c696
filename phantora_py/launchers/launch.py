"""What a launcher's command line asks for, in the same words for every launcher."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Place:
    """Where a rank is. `names`: of all nodes' hosts; `address`, `port`: where rank 0 listens."""

    rank: int
    ranks: int
    node: int
    nodes: int
    local_rank: int
    ranks_per_node: int
    names: tuple[str, ...]
    address: str
    port: int

    def of_node(self) -> "Place":
        """The place of the one process of its node that started the ranks there."""
        return Place(
            *(self.node, self.nodes, self.node, self.nodes, 0, 1),
            *(self.names, self.address, self.port),
        )


@dataclass(frozen=True)
class FoundGpus:
    """What a launcher finds on a node. `properties`: of each, as PyTorch names them."""

    count: int
    properties: Mapping[str, Any]


RankVariables = Callable[[Place], Mapping[str, str]]


def no_variables(_place: Place) -> Mapping[str, str]:
    """Of a launcher that sets none of its own."""
    return {}


@dataclass(frozen=True)
class Launch:
    """What the command of a launcher asks for.

    `nodes`, `ranks`: None where the user left it open. `processes_per_node`: None for one per GPU;
    `ranks` beats it. `max_restarts`: how often all ranks start again where one has failed.
    `python`: the program is given to Python, as a `module` or as a script. `local_rank_argument`:
    comes before the program's own, `{}` stands for the rank on the node. `variables`: the
    launcher's own, of all ranks and of each; `torchrun_variables`: whether RANK, MASTER_ADDR and
    their like are set too. `own_ranks`: the program is started once, and each of its processes that
    uses a GPU is a rank.
    """

    launcher: str
    program: tuple[str, ...]
    nodes: int | None = None
    processes_per_node: int | None = 1
    ranks: int | None = None
    run_id: str = "none"
    role: str = "default"
    master_port: int | None = None
    max_restarts: int = 0
    module: bool = False
    python: bool = True
    shown_local_ranks: frozenset[int] | None = None
    notes: tuple[str, ...] = ()
    log_dir: Path | None = None
    local_rank_argument: str | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    rank_variables: RankVariables = no_variables
    torchrun_variables: bool = True
    own_ranks: bool = False
    size_option: str = "--nproc-per-node"
    """What says how many processes a node has, for messages."""
    nodes_option: str = "--nnodes"

    def __str__(self) -> str:
        return self.launcher
