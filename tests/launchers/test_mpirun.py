"""mpirun's command line, of Open MPI and of Hydra, and the variables of its ranks."""

from pathlib import Path

import pytest

from phantora_py.launchers.launch import Place
from phantora_py.launchers.mpirun import parse_mpirun
from sim_server.errors import UsageError

PLACE = Place(
    *(5, 8, 1, 2, 1, 4),
    names=("node0", "node1"),
    address="10.88.1.1",
    port=29500,
)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["-np", "8", "x"], (None, None, 8)),
        (["--np", "8", "x"], (None, None, 8)),
        (["-n", "8", "-N", "4", "x"], (2, 4, None)),
        (["-np", "8", "--map-by", "ppr:4:node", "x"], (2, 4, None)),
        (["-np", "8", "-ppn", "4", "x"], (2, 4, None)),
        (["-np", "2", "--npernode", "4", "x"], (1, 2, None)),
        (["--host", "a:4,b:4", "x"], (2, 4, None)),
        (["-np", "4", "-H", "a:2,b:2", "x"], (2, 2, None)),
        (["-np", "4", "-H", "a,b", "x"], (2, 2, 4)),
        (["-np", "8", "-hosts", "a,b", "-ppn", "4", "x"], (2, 4, None)),
    ],
)
def test_sizes(arguments: list[str], expected: tuple[int | None, ...]) -> None:
    """Nodes, processes per node and ranks follow from what is given, in any spelling."""
    launch = parse_mpirun(arguments, {})
    assert (launch.nodes, launch.processes_per_node, launch.ranks) == expected
    assert launch.program == ("x",)


def test_a_file_of_hosts(tmp_path: Path) -> None:
    """Hosts are nodes, slots are ranks; both spellings of slots are read."""
    hosts = tmp_path / "hosts"
    hosts.write_text("a slots=4\nb slots=4 max_slots=4\n")
    launch = parse_mpirun(["--hostfile", str(hosts), "x"], {})
    assert (launch.nodes, launch.processes_per_node) == (2, 4)
    hosts.write_text("a:2\nb:2\n")
    launch = parse_mpirun(["-n", "4", "-f", str(hosts), "x"], {})
    assert (launch.nodes, launch.processes_per_node) == (2, 2)


def test_variables_of_open_mpi() -> None:
    """Programs that read OMPI_* find their place; torchrun's variables are not set."""
    launch = parse_mpirun(["-np", "8", "-x", "A=1", "-x", "PATH", "python", "x.py"], {})
    assert launch.variables == {"A": "1"}
    assert not launch.torchrun_variables
    variables = launch.rank_variables(PLACE)
    assert variables["OMPI_COMM_WORLD_RANK"] == "5"
    assert variables["OMPI_COMM_WORLD_SIZE"] == "8"
    assert variables["OMPI_COMM_WORLD_LOCAL_RANK"] == "1"
    assert variables["OMPI_COMM_WORLD_LOCAL_SIZE"] == "4"
    assert "PMI_RANK" not in variables


@pytest.mark.parametrize(
    ("arguments", "environment", "name"),
    [
        (["-n", "8", "-genv", "A", "1", "x"], {}, "mpiexec"),
        (["-n", "8", "x"], {}, "mpiexec.hydra"),
        (["-n", "8", "x"], {"I_MPI_ROOT": "/opt/intel"}, "mpirun"),
    ],
)
def test_variables_of_hydra(arguments: list[str], environment: dict[str, str], name: str) -> None:
    """Hydra is told by its options, its name or Intel's variables; its ranks read PMI_*."""
    variables = parse_mpirun(arguments, environment, name).rank_variables(PLACE)
    assert variables == {
        "PMI_RANK": "5",
        "PMI_SIZE": "8",
        "MPI_LOCALRANKID": "1",
        "MPI_LOCALNRANKS": "4",
    }


def test_ignored_options_are_named_with_their_reason() -> None:
    """Nothing that the user gave is dropped without a word; --mca has two values."""
    launch = parse_mpirun(["-np", "2", "--mca", "btl", "self", "--bind-to", "none", "x"], {})
    assert launch.program == ("x",)
    assert launch.notes == (
        "mpirun --mca is ignored: there is no MPI library underneath",
        "mpirun --bind-to is ignored: binding to this machine's cores would slow the simulation "
        "only",
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["x"], "how many ranks to start"),
        (["-np", "2"], "names no program"),
        (["-np", "2", "x", ":", "-np", "2", "y"], "several programs"),
        (["-np", "5", "-N", "2", "x"], "fewer than 2 ranks"),
        (["-np", "8", "--host", "a:2,b:2", "x"], "does not fit on 2 hosts with 2 ranks each"),
        (["--host", "a:4,b:2", "x"], "a has 4, b has 2 slots"),
        (["-np", "2", "--hostfiles", "f", "x"], "no option --hostfiles that phantora knows"),
        (["-np", "2", "--wdir", "/tmp", "x"], "--wdir cannot be simulated: start phantora run in"),
    ],
)
def test_wrong_options_are_explained(arguments: list[str], message: str) -> None:
    """A wrong option is a usage error that says what is wrong."""
    with pytest.raises(UsageError, match=message):
        parse_mpirun(arguments, {})
