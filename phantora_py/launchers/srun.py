"""The command line of Slurm's `srun`, and the variables that its tasks see.

Source: srun(1) of Slurm 24.11, its input and output environment variables.
"""

import re
from collections.abc import Mapping, Sequence

from phantora_py.launchers.hosts import read_hosts
from phantora_py.launchers.launch import Launch, Place
from phantora_py.launchers.options import (
    Given,
    Table,
    honoured,
    ignored,
    number,
    read_options,
    refused,
)
from phantora_py.launchers.torchrun import OUTPUT
from sim_server.errors import UsageError

_QUEUE = "there is no queue: the run begins at once"
_CORES = "binding to this machine's cores would slow the simulation only"
_GPUS = "each rank sees the GPUs of its node, --gpus-per-node of phantora run says how many"
_CONTAINER = "tasks in containers are not started; see --backend of phantora run"
_JOB_ID = "1"

OPTIONS = {
    "nodes": honoured("-N"),
    "ntasks": honoured("-n"),
    "ntasks-per-node": honoured(),
    "ntasks-per-gpu": honoured(),
    "gpus-per-node": honoured(),
    "gpus": honoured("-G"),
    "gpus-per-task": honoured(),
    "gres": honoured(),
    "nodelist": honoured("-w"),
    "export": honoured(),
    "job-name": honoured("-J"),
    "cpus-per-task": ignored(_CORES, "-c"),
    "cpus-per-gpu": ignored(_CORES),
    "cpu-bind": ignored(_CORES),
    "mem-bind": ignored(_CORES),
    "hint": ignored(_CORES),
    "gpu-bind": ignored(_GPUS),
    "accel-bind": ignored(_GPUS),
    "distribution": ignored("ranks are placed node by node", "-m"),
    "partition": ignored(_QUEUE, "-p"),
    "account": ignored(_QUEUE, "-A"),
    "qos": ignored(_QUEUE, "-q"),
    "time": ignored(_QUEUE, "-t"),
    "constraint": ignored(_QUEUE, "-C"),
    "reservation": ignored(_QUEUE),
    "exclude": ignored(_QUEUE, "-x"),
    "jobid": ignored(_QUEUE),
    "exclusive": ignored(_QUEUE, values=0, optional=True),
    "overlap": ignored(_QUEUE, values=0),
    "mem": ignored(_QUEUE),
    "mem-per-cpu": ignored(_QUEUE),
    "mem-per-gpu": ignored(_QUEUE),
    "switches": ignored(_QUEUE),
    "network": ignored("simulated nodes have a network of their own"),
    "mpi": ignored("there is no MPI library underneath"),
    "kill-on-bad-exit": ignored(
        "a rank that fails ends the simulated run", "-K", values=0, optional=True
    ),
    "wait": ignored("a rank that fails ends the simulated run", "-W"),
    "signal": ignored("phantora handles signals itself"),
    "output": ignored(OUTPUT, "-o"),
    "error": ignored(OUTPUT, "-e"),
    "input": ignored("ranks have no standard input", "-i"),
    "label": ignored(OUTPUT, "-l", values=0),
    "unbuffered": ignored(OUTPUT, "-u", values=0),
    "quiet": ignored(OUTPUT, "-Q", values=0),
    "verbose": ignored(OUTPUT, "-v", values=0),
    "pty": ignored("ranks have no terminal", values=0),
    "chdir": refused("start phantora run in that directory", "-D"),
    "multi-prog": refused("ranks run one program", values=0),
    "het-group": refused("nodes have the same number of ranks each"),
    "container-image": refused(_CONTAINER),
    "container-mounts": refused(_CONTAINER),
    "container-name": refused(_CONTAINER),
    "container-workdir": refused(_CONTAINER),
    "container": refused(_CONTAINER),
}
SRUN = Table("srun", OPTIONS)


def parse_srun(arguments: Sequence[str], environment: Mapping[str, str]) -> Launch:
    """Understands the arguments that follow `srun`.

    `environment` supplies what the job has said before: SLURM_NNODES and its like.

    Raises: UsageError for an unknown or refused option, a bad value, or no program to run.
    """
    given = read_options(arguments, SRUN)
    given.refuse()
    if not given.rest:
        raise UsageError("The srun command names no program to run.")
    nodes, processes = job_size(given, environment)
    job = given.text("job-name") or environment.get("SLURM_JOB_NAME") or given.rest[0]

    own_gpus = None if given.text("gpu-bind") == "none" else given.number("gpus-per-task", least=1)

    def variables(place: Place) -> Mapping[str, str]:
        own = {} if own_gpus is None else {"CUDA_VISIBLE_DEVICES": _gpus_of(place, own_gpus)}
        return {**job_variables(place, job), **_task_variables(place), **own}

    return Launch(
        launcher="srun",
        program=given.rest,
        nodes=nodes,
        processes_per_node=processes,
        python=False,
        notes=given.notes(),
        variables=_exported(given),
        rank_variables=variables,
        torchrun_variables=False,
        size_option="--ntasks-per-node",
        nodes_option="--nodes",
    )


def job_size(given: Given, environment: Mapping[str, str]) -> tuple[int, int]:
    """Nodes, and tasks on each. Raises: UsageError if nodes would have different numbers."""
    nodes = _nodes(given, environment)
    per_node = _one(given, environment, "ntasks-per-node", "SLURM_NTASKS_PER_NODE")
    per_gpu = given.number("ntasks-per-gpu", least=1)
    if per_node is None and per_gpu is not None:
        gpus = gpus_per_node(given)
        per_node = None if gpus is None else gpus * per_gpu
    tasks = given.number("ntasks", least=1)
    if tasks is None and per_node is None:
        text = environment.get("SLURM_NTASKS")
        tasks = None if text is None else number("SLURM_NTASKS", text, least=1)
    if tasks is None:
        return nodes or 1, per_node or 1
    if nodes is None:
        nodes = -(-tasks // per_node) if per_node else 1
    if tasks % nodes or (per_node is not None and tasks < nodes * per_node and nodes > 1):
        raise UsageError(
            f"srun with {tasks} tasks on {nodes} nodes: simulated nodes have the same number each."
        )
    return nodes, tasks // nodes


def gpus_per_node(given: Given) -> int | None:
    """What --gpus-per-node or --gres=gpu:TYPE:N say."""
    for name in ("gpus-per-node", "gres"):
        found = re.search(r"(?:^|:|,)(\d+)$", given.text(name) or "")
        if found is not None:
            return int(found[1])
    return None


def _nodes(given: Given, environment: Mapping[str, str]) -> int | None:
    text = given.text("nodes")
    if text is not None:
        # A range of which the most is simulated, as of torchrun.
        return number("srun --nodes", text.rpartition("-")[2], least=1)
    listed = given.text("nodelist")
    if listed is not None and "[" not in listed:
        return len(read_hosts(listed))
    for name in ("SLURM_NNODES", "SLURM_JOB_NUM_NODES"):
        if name in environment:
            return number(name, environment[name], least=1)
    return None


def _one(given: Given, environment: Mapping[str, str], name: str, variable: str) -> int | None:
    if name in given:
        return given.number(name, least=1)
    text = environment.get(variable, "").partition("(")[0]
    return number(variable, text, least=1) if text else None


def _exported(given: Given) -> dict[str, str]:
    """Of `--export=ALL,NAME=VALUE`; the others are there as well."""
    pairs = [part.partition("=") for part in (given.text("export") or "").split(",")]
    return {name: value for name, separator, value in pairs if separator}


def node_list(names: Sequence[str]) -> str:
    """`node[0-3]`, as Slurm writes the names of hosts that end in numbers."""
    prefixes = {name.rstrip("0123456789") for name in names}
    if len(names) < 2 or len(prefixes) > 1 or any(name[-1] not in "0123456789" for name in names):
        return ",".join(names)
    (prefix,) = prefixes
    numbers = [name[len(prefix) :] for name in names]
    return f"{prefix}[{numbers[0]}-{numbers[-1]}]" if "." not in prefix else ",".join(names)


def job_variables(place: Place, name: str) -> dict[str, str]:
    """What a job's script sees, too."""
    numbers = {
        "SLURM_JOB_NUM_NODES": place.nodes,
        "SLURM_NNODES": place.nodes,
        "SLURM_NTASKS": place.ranks,
        "SLURM_NPROCS": place.ranks,
        "SLURM_NTASKS_PER_NODE": place.ranks_per_node,
    }
    each = f"{place.ranks_per_node}(x{place.nodes})"
    tasks = each if place.nodes > 1 else str(place.ranks_per_node)
    texts = {
        "SLURM_JOB_ID": _JOB_ID,
        "SLURM_JOBID": _JOB_ID,
        "SLURM_JOB_NAME": name,
        "SLURM_JOB_NODELIST": node_list(place.names),
        "SLURM_NODELIST": node_list(place.names),
        "SLURM_TASKS_PER_NODE": tasks,
    }
    return {name: str(value) for name, value in numbers.items()} | texts


# Source: srun's manual, --gpus-per-task: it implies --gpu-bind=per_task.
def _gpus_of(place: Place, gpus: int) -> str:
    first = place.local_rank * gpus
    return ",".join(map(str, range(first, first + gpus)))


def _task_variables(place: Place) -> dict[str, str]:
    first = place.node * place.ranks_per_node
    local = range(first, first + place.ranks_per_node)
    numbers = {
        "SLURM_PROCID": place.rank,
        "SLURM_LOCALID": place.local_rank,
        "SLURM_NODEID": place.node,
        "SLURM_STEP_ID": 0,
        "SLURM_STEPID": 0,
        "SLURM_STEP_NUM_NODES": place.nodes,
        "SLURM_STEP_NUM_TASKS": place.ranks,
        "SLURM_STEP_TASKS_PER_NODE": place.ranks_per_node,
    }
    texts = {
        "SLURMD_NODENAME": place.names[place.node],
        "SLURM_STEP_NODELIST": node_list(place.names),
        "SLURM_GTIDS": ",".join(map(str, local)),
        "SLURM_LAUNCH_NODE_IPADDR": place.address,
    }
    return {name: str(value) for name, value in numbers.items()} | texts
