"""The command line of `mpirun` and `mpiexec`, of Open MPI and of Hydra (MPICH, Intel MPI).

Programs see the variables of that MPI. There is no MPI library underneath: programs that use MPI
as a way to start PyTorch work, those that send by MPI do not.

Sources: mpirun(1) of Open MPI 4.1 and 5.0; the Hydra section of the MPICH wiki; the environment
variables of Intel MPI's reference.
"""

import re
from collections.abc import Mapping, Sequence

from phantora_py.launchers.hosts import even_slots, read_hostfile, read_hosts
from phantora_py.launchers.launch import Launch, Place
from phantora_py.launchers.options import Given, Table, honoured, ignored, read_options, refused
from phantora_py.launchers.torchrun import OUTPUT
from sim_server.errors import UsageError

NAMES = (
    "mpirun",
    "mpiexec",
    "orterun",
    "prterun",
    "mpiexec.hydra",
    "mpirun.mpich",
    "mpiexec.mpich",
)
_CORES = "binding to this machine's cores would slow the simulation only"
_NETWORK = "simulated nodes have a network of their own"
_HYDRA = ("ppn", "genv", "env", "genvlist", "genvall", "hosts", "f")

_OPTIONS = {
    "np": honoured("-n", "-c", "--n", "-np"),
    "npernode": honoured("-N", "--N", "-ppn", "--ppn"),
    "map-by": honoured(),
    "hostfile": honoured("-machinefile", "--machinefile", "-f"),
    "host": honoured("-H", "-hosts", "--hosts"),
    "x": honoured("-x"),
    "genv": honoured("-genv", "-env", values=2),
    "genvlist": ignored("ranks have all variables"),
    "genvall": ignored("ranks have all variables", values=0),
    "envall": ignored("ranks have all variables", values=0),
    "mca": ignored("there is no MPI library underneath", "--pmixmca", "--prtemca", values=2),
    "gmca": ignored("there is no MPI library underneath", values=2),
    "bind-to": ignored(_CORES),
    "rank-by": ignored("ranks are placed node by node"),
    "bind-to-core": ignored(_CORES, values=0),
    "report-bindings": ignored(_CORES, values=0),
    "cpus-per-proc": ignored(_CORES),
    "oversubscribe": ignored(_CORES, values=0),
    "use-hwthread-cpus": ignored(_CORES, values=0),
    "allow-run-as-root": ignored("nobody asks who runs it", values=0),
    "prefix": ignored("there is no MPI library underneath"),
    "tag-output": ignored(OUTPUT, values=0),
    "timestamp-output": ignored(OUTPUT, values=0),
    "output-filename": ignored(OUTPUT),
    "output": ignored(OUTPUT),
    "prepend-rank": ignored(OUTPUT, "-l", values=0),
    "display-map": ignored(OUTPUT, values=0),
    "display-allocation": ignored(OUTPUT, values=0),
    "display": ignored(OUTPUT),
    "verbose": ignored(OUTPUT, "-v", values=0),
    "quiet": ignored(OUTPUT, "-q", values=0),
    "iface": ignored(_NETWORK),
    "launcher": ignored("phantora starts every node of the job", "-bootstrap", "-rmk"),
    "wdir": refused("start phantora run in that directory", "-wd", "-wdir"),
    "am": refused("files of parameters are not read"),
    "app": refused("files of programs are not read"),
    "configfile": refused("files of programs are not read"),
}
MPIRUN = Table("mpirun", _OPTIONS, abbreviates=False, dashes=("--", "-"))


def parse_mpirun(
    arguments: Sequence[str], environment: Mapping[str, str], name: str = "mpirun"
) -> Launch:
    """Understands the arguments that follow `mpirun`, called `name`.

    Whose mpirun it is, is told by its name, by options that only Hydra has, or by Intel MPI's
    variables in `environment`; else it is Open MPI's.

    Raises: UsageError for an unknown or refused option, a bad value, or no program to run.
    """
    given = read_options(arguments, MPIRUN)
    given.refuse()
    if not given.rest:
        raise UsageError("The mpirun command names no program to run.")
    if ":" in given.rest:
        raise UsageError("mpirun with several programs (:) cannot be simulated.")
    options = {one.lstrip("-") for one in arguments[: len(arguments) - len(given.rest)]}
    hydra = (
        name.endswith(("hydra", "mpich"))
        or "I_MPI_ROOT" in environment
        or not options.isdisjoint(_HYDRA)
    )
    nodes, processes, ranks = _size(given)
    return Launch(
        launcher="mpirun",
        program=given.rest,
        nodes=nodes,
        processes_per_node=processes,
        ranks=ranks,
        python=False,
        notes=given.notes(),
        variables=_exported(given),
        rank_variables=_of_hydra if hydra else _of_open_mpi,
        torchrun_variables=False,
        size_option="-N",
        nodes_option="--hostfile",
    )


def _size(given: Given) -> tuple[int | None, int | None, int | None]:
    """Nodes, processes per node and ranks, as far as they are told."""
    ranks, processes = given.number("np", least=1), given.number("npernode", least=1)
    mapping = re.fullmatch(r"ppr:(\d+):node(:.*)?", given.text("map-by") or "")
    if mapping is not None:
        processes = int(mapping[1])
    hosts: list[tuple[str, int | None]] = []
    if (path := given.text("hostfile")) is not None:
        hosts = read_hostfile(path, "mpirun --hostfile")
    elif (text := given.text("host")) is not None:
        hosts = read_hosts(text)
    if hosts and processes is None:
        processes = even_slots(hosts, "mpirun")
    if ranks is None:
        if not hosts or processes is None:
            raise UsageError("Say with mpirun -np how many ranks to start.")
        return len(hosts), processes, None
    if processes is None:
        if ranks % (len(hosts) or 1):
            raise UsageError(f"mpirun -np {ranks} does not divide among {len(hosts)} hosts.")
        return len(hosts) or None, ranks // len(hosts) if hosts else None, ranks
    if ranks <= processes:
        return 1, ranks, None
    if ranks % processes:
        raise UsageError(
            f"mpirun -np {ranks} leaves a node with fewer than {processes} ranks: simulated nodes "
            "have the same number each."
        )
    nodes = ranks // processes
    if hosts and nodes > len(hosts):
        raise UsageError(
            f"mpirun -np {ranks} does not fit on {len(hosts)} hosts with {processes} ranks each."
        )
    return nodes, processes, None


def _exported(given: Given) -> dict[str, str]:
    """Variables with a value of their own: of `-x NAME=VALUE` and `-genv NAME VALUE`."""
    pairs = [text.partition("=") for (text,) in given.all("x")]
    exported = {name: value for name, separator, value in pairs if separator}
    exported.update((values[0], values[1]) for values in given.all("genv"))
    return exported


def _of_open_mpi(place: Place) -> Mapping[str, str]:
    numbers = {
        "OMPI_COMM_WORLD_RANK": place.rank,
        "OMPI_COMM_WORLD_SIZE": place.ranks,
        "OMPI_COMM_WORLD_LOCAL_RANK": place.local_rank,
        "OMPI_COMM_WORLD_LOCAL_SIZE": place.ranks_per_node,
        "OMPI_COMM_WORLD_NODE_RANK": place.local_rank,
        "OMPI_UNIVERSE_SIZE": place.ranks,
        "OMPI_APP_CTX_NUM_PROCS": place.ranks,
        "PMIX_RANK": place.rank,
    }
    return {name: str(value) for name, value in numbers.items()} | {"OMPI_ARGV": ""}


def _of_hydra(place: Place) -> Mapping[str, str]:
    numbers = {
        "PMI_RANK": place.rank,
        "PMI_SIZE": place.ranks,
        "MPI_LOCALRANKID": place.local_rank,
        "MPI_LOCALNRANKS": place.ranks_per_node,
    }
    return {name: str(value) for name, value in numbers.items()}
