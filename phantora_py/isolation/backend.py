"""What puts ranks into containers: phantora itself, or an engine of containers."""

from collections.abc import Sequence

from phantora_py.isolation import bwrap, engine_api, probe
from phantora_py.isolation.engines import Engine, EngineFailed
from phantora_py.isolation.probe import Isolation
from sim_server.errors import UsageError

BACKENDS = ("native", "bwrap", "podman", "docker")
_OF_AN_ENGINE = frozenset({"mnt", "uts", "ipc", "pid"})


def choose(backend: str, setting: str, network: str) -> Isolation:
    """The isolation for a run with `--backend`, `--isolation` and `--network`.

    Raises: UsageError if what was asked for is not to be had.
    """
    if backend == "native":
        return probe.choose(setting, network)
    if setting == "process":
        raise UsageError(f"--isolation process means no containers; --backend {backend} does.")
    try:
        found = examine(backend, network)
    except EngineFailed as reason:
        raise UsageError(
            f"--backend {backend} cannot be used: {reason}. See: phantora doctor"
        ) from reason
    return probe.require(setting, found)


def examine(backend: str, network: str) -> Isolation:
    """What an engine has to offer here. Raises: EngineFailed if nothing."""
    if backend == "bwrap":
        bwrap.find()
        # Their network is made before bwrap, which could not join it to others.
        native = probe.probe(network)
        shared = native.namespaces & {"user", "net"} if native.own_network else frozenset()
        denied = {kind: why for kind, why in native.denied.items() if kind in ("user", "net")}
    else:
        engine_api.find(backend).close()
        shared = frozenset()
        why = f"ranks of {backend} share the machine's"
        denied = {"net": why} if network == "own" else {}
    return Isolation(_OF_AN_ENGINE | shared, denied, network, backend)


def make_engine(
    backend: str, run_dir: str, namespaces: frozenset[str], writable: Sequence[str] | None
) -> Engine:
    """The engine, in the process that is to start containers. Raises: EngineFailed, OSError."""
    if backend == "bwrap":
        return bwrap.Bwrap(namespaces, writable)
    return engine_api.EngineApi(backend, run_dir, writable)
