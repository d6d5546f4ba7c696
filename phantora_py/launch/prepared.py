"""What is known of a run before anything is started."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from phantora_py.isolation.probe import Isolation
from phantora_py.launch.command import Command
from phantora_py.launch.host_gaps import HostGaps
from phantora_py.launch.layout import RunLayout
from phantora_py.launch.options import RunOptions
from phantora_py.launch.shares import Hosts, Share
from phantora_py.launch.spool import Stream
from phantora_py.rank.expert_load import ExpertLoad
from phantora_py.rank.loader_time import LoaderTime
from sim_server.access import Endpoint
from sim_server.cluster import Cluster
from sim_server.cpu import CpuProfile
from sim_server.fold import Fold
from sim_server.gpu import GpuProfile


@dataclass
class Prepared:
    """`notes`: what the user should be told. `nccl_variables`: those of our own environment, which
    the ranks inherit. `streams`: what becomes of the ranks' output, see `spool`; that of
    `shown_ranks` is shown.
    """

    options: RunOptions
    command: Command
    cluster: Cluster
    gpu: GpuProfile
    layout: RunLayout
    isolation: Isolation
    output: Path
    fork: bool
    writable: list[str] | None = None
    streams: tuple[Stream, ...] = ()
    shown_ranks: frozenset[int] = frozenset()
    log_dir: Path | None = None
    nccl_variables: dict[str, str] = field(default_factory=dict)
    host_gaps: HostGaps | None = None
    cpu: CpuProfile | None = None
    """With `--host-time counted`."""
    data_time: LoaderTime | None = None
    expert_load: ExpertLoad = field(default_factory=ExpertLoad)
    lookups: list[dict[str, Any]] = field(default_factory=list)
    """Embedding tables with their statistics."""
    other_gpus: dict[str, GpuProfile] = field(default_factory=dict)
    fold: Fold | None = None
    server: Endpoint | None = None
    """One that somebody else started."""
    notes: list[str] = field(default_factory=list)
    restarts: list[str] = field(default_factory=list)
    """How each attempt before this one ended: the launcher has started the ranks again."""

    share: Share | None = None
    """Of a run on several hosts: this one's."""
    hosts: Hosts | None = None
    """All of them, where the run was started."""
    epoch: dict[str, str] = field(default_factory=dict)
    """Where the clocks of the program start (`rundir.present`), once that is settled."""

    @property
    def live_ranks(self) -> list[int]:
        """The ranks that are started."""
        return list(range(self.layout.ranks) if self.fold is None else self.fold.live)

    @property
    def local_ranks(self) -> list[int]:
        """Those of them that are started on this host."""
        return self.live_ranks if self.share is None else list(self.share.ranks)

    @property
    def nodes_elsewhere(self) -> frozenset[int]:
        """Simulated nodes whose ranks are started on other hosts."""
        here = {self.layout.node(rank) for rank in self.local_ranks}
        return frozenset(self.layout.node(rank) for rank in self.live_ranks) - here
