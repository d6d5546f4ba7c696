"""What a server offers, and what a Hello may ask of it.

Cluster, timing cache and GPU executor are given where the server is started. What comes from an
agent says what the program is like (its layout, its NCCL, its CUDA) and is checked here: nothing of
it is run, opened, or allocated before.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import grpc

from sim_server import simulation_pb2 as messages
from sim_server.cluster import Cluster, place
from sim_server.collectives.environment import NcclEnvironment
from sim_server.errors import UsageError
from sim_server.fold import Apart, Dimension, Fold
from sim_server.records import PROTOCOL_VERSION as RECORDS_VERSION
from sim_server.settings import Settings, load_gpus, parse_choice

PROTOCOL_VERSION = 7
"""Of the messages in simulation.proto."""
MAX_RANKS = 1 << 16
"""Of one run. Assumed: larger than any cluster that was ever simulated rank by rank."""
_MOST_VARIABLES = 1000
_MOST_TEXT = 4096
_MOST_DIMENSIONS = 32
# Of NCCL 1.0.0 and 99.99.99 as ncclGetVersion tells them.
_NCCL_VERSIONS = range(1000, 1_000_000)


class Refused(Exception):  # noqa: N818 - says what happened
    """An agent is turned away; the message is one sentence that tells it why."""

    def __init__(self, code: grpc.StatusCode, why: str) -> None:
        super().__init__(why)
        self.code = code


def refused(why: str) -> Refused:
    """A Hello that is wrong whatever the server's state."""
    return Refused(grpc.StatusCode.INVALID_ARGUMENT, why)


@dataclass(frozen=True)
class Offer:
    """What a server simulates, and what it measures with."""

    cluster: Cluster
    cache: Path | None = None
    """The timing cache."""
    executor: Mapping[str, Any] | None = None
    """As `Settings.executor`."""
    lookups: Sequence[Mapping[str, Any]] = ()
    """As `Settings.lookups`."""

    def to_json(self) -> str:
        """The file that a server of a run's own is given."""
        return json.dumps(
            {
                "cluster": self.cluster.to_dict(),
                "cache": self.cache and str(self.cache),
                "executor": self.executor and dict(self.executor),
                "lookups": list(self.lookups),
            }
        )

    @staticmethod
    def from_json(text: str) -> Offer:
        """Inverse of `to_json`."""
        values = json.loads(text)
        cache = values["cache"]
        return Offer(
            Cluster.from_dict(values["cluster"]),
            cache and Path(cache),
            values["executor"],
            values.get("lookups", ()),
        )

    def settings(self, wanted: messages.Wanted) -> Settings:
        """The settings of the run that agents want. Raises: Refused."""
        _check_sizes(wanted)
        try:
            place(self.cluster, wanted.ranks, wanted.nodes, wanted.gpus_per_node)
            gpu, other_gpus = load_gpus(self.cluster, wanted.nodes)
            variables = dict(wanted.nccl_environment)
            environment = NcclEnvironment.read(variables)
            for node in self.cluster.node_types(wanted.nodes):
                environment.used_nics(node.nic.per_node)
        except UsageError as error:
            raise refused(str(error)) from error
        settings = Settings(
            ranks=wanted.ranks,
            nodes=wanted.nodes,
            gpus_per_node=wanted.gpus_per_node,
            cluster=self.cluster,
            gpu=gpu,
            nccl_environment=variables,
            nccl_version=wanted.nccl_version,
            cache=self._cache(wanted),
            executor=self.executor,
            other_gpus=other_gpus,
            iteration=_iteration(wanted),
            fold=_fold(wanted),
            lookups=self.lookups,
        )
        if wanted.simulated != fingerprint(settings):
            raise Refused(grpc.StatusCode.FAILED_PRECONDITION, self._other_cluster(wanted))
        return settings

    def _cache(self, wanted: messages.Wanted) -> dict[str, str] | None:
        if self.cache is None:
            return None
        return {"path": str(self.cache), "cuda": wanted.cuda, "libraries": wanted.libraries}

    def _other_cluster(self, wanted: messages.Wanted) -> str:
        own = self.cluster.name
        if wanted.cluster != own:
            return (
                f"this server simulates cluster {own!r} and the run asks for "
                f"{_shown(wanted.cluster)}; name the same one with --cluster on both sides"
            )
        return (
            f"cluster {own!r} is not the same on both sides; give both the same file, and "
            "install the same version of phantora"
        )


def fingerprint(settings: Settings) -> bytes:
    """Of what is simulated: the cluster and its GPUs."""
    program: dict[str, Any] = {"nccl_environment": {}, "nccl_version": 0}
    program |= {"iteration": None, "fold": None}
    simulated = replace(settings, cache=None, executor=None, **program)
    return hashlib.sha256(simulated.to_json().encode()).digest()


def make_hello(
    settings: Settings,
    local_ranks: range | list[int],
    *,
    cuda: str = "",
    libraries: str = "",
    until_steady: bool = False,
    host: str = "",
) -> messages.Hello:
    """What an agent with these ranks says to a server that offers the cluster of `settings`."""
    wanted = messages.Wanted(
        ranks=settings.ranks,
        nodes=settings.nodes,
        gpus_per_node=settings.gpus_per_node,
        cluster=settings.cluster.name,
        simulated=fingerprint(settings),
        nccl_environment=settings.nccl_environment,
        nccl_version=settings.nccl_version,
        cuda=cuda,
        libraries=libraries,
        until_steady=until_steady,
        iteration=settings.iteration or "",
    )
    if settings.fold is not None:
        wanted.fold.witnesses.extend(settings.fold.witnesses)
        wanted.fold.apart.extend(map(str, settings.fold.apart))
        wanted.fold.searches = settings.fold.searches
        for one in settings.fold.mesh:
            wanted.fold.mesh.add(name=one.name, size=one.size, folded=one.folded)
    return messages.Hello(
        protocol_version=PROTOCOL_VERSION,
        records_version=RECORDS_VERSION,
        local_ranks=local_ranks,
        wanted=wanted,
        host=host,
    )


def check_hello(hello: messages.Hello, offer: Offer) -> Settings:
    """What one Hello says, whatever others have said. Raises: Refused."""
    versions = (
        ("protocol", hello.protocol_version, PROTOCOL_VERSION),
        ("records", hello.records_version, RECORDS_VERSION),
    )
    for name, theirs, ours in versions:
        if theirs != ours:
            raise Refused(
                grpc.StatusCode.FAILED_PRECONDITION,
                f"the agent speaks {name} version {theirs}, this server {ours}; install the "
                "same version of phantora on both",
            )
    _check_text("host", hello.host)
    settings = offer.settings(hello.wanted)
    ranks = set(hello.local_ranks)
    if not ranks:
        raise refused("the Hello names no rank of the agent")
    if len(ranks) != len(hello.local_ranks):
        raise refused("the Hello names a rank of the agent twice")
    if max(ranks) >= settings.ranks:
        raise refused(
            f"the Hello names rank {max(ranks)}; ranks of this run are 0 to {settings.ranks - 1}"
        )
    if absent := sorted(ranks - set(settings.live_ranks)):
        raise refused(f"the Hello names rank {absent[0]}, for which another stands in this run")
    return settings


def _iteration(wanted: messages.Wanted) -> str | None:
    """Raises: Refused."""
    try:
        return parse_choice(wanted.iteration).text if wanted.iteration else None
    except UsageError as error:
        asked = _shown(wanted.iteration)
        raise refused(f"the Hello asks for {asked}, which --iteration does not take") from error


def _fold(wanted: messages.Wanted) -> Fold | None:
    """Which ranks run. Raises: Refused."""
    if not wanted.HasField("fold"):
        return None
    mesh = tuple(Dimension(one.name, one.size, one.folded) for one in wanted.fold.mesh)
    fold = Fold(mesh, tuple(wanted.fold.witnesses), searches=wanted.fold.searches)
    if len(wanted.fold.apart) > _MOST_DIMENSIONS:
        raise refused(f"the Hello has {len(wanted.fold.apart)} ranges of ranks that differ")
    if len(mesh) > _MOST_DIMENSIONS or fold.ranks != wanted.ranks:
        raise refused(f"the Hello folds {fold.ranks} ranks of {wanted.ranks}")
    try:
        fold = replace(fold, apart=tuple(map(Apart.parse, wanted.fold.apart)))
        fold.check()
    except ValueError as error:
        raise refused(f"the Hello has a fold that is none: {error}") from error
    return fold


def _check_sizes(wanted: messages.Wanted) -> None:
    for name in ("ranks", "nodes", "gpus_per_node"):
        value = getattr(wanted, name)
        if not 1 <= value <= MAX_RANKS:
            raise refused(f"the Hello asks for {value} {name}; it is 1 to {MAX_RANKS}")
    if wanted.nccl_version not in _NCCL_VERSIONS:
        raise refused(f"the Hello says that NCCL has version {wanted.nccl_version}")
    for name in ("cluster", "cuda", "libraries", "iteration"):
        _check_text(name, getattr(wanted, name))
    if len(wanted.nccl_environment) > _MOST_VARIABLES:
        raise refused(f"the Hello has more than {_MOST_VARIABLES} NCCL_* variables")
    for name, value in wanted.nccl_environment.items():
        if not name.startswith("NCCL_"):
            raise refused(f"the Hello has the variable {_shown(name)}, which is none of NCCL's")
        _check_text("nccl_environment", name)
        _check_text(name, value)


def _check_text(name: str, text: str) -> None:
    if len(text) > _MOST_TEXT:
        raise refused(f"{_shown(name)} of the Hello has more than {_MOST_TEXT} characters")


def _shown(text: str) -> str:
    """A text of somebody else in a message: short, without line breaks."""
    return ascii(text if len(text) <= 80 else f"{text[:80]}...")
