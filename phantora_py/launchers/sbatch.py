"""A job's script as `sbatch` takes it: the size of the job is in its #SBATCH lines.

Source: sbatch(1) of Slurm 24.11.
"""

import os
import shlex
from collections.abc import Mapping, Sequence

from phantora_py.isolation.nodes import node_name
from phantora_py.launchers.launch import Place
from phantora_py.launchers.options import Given, Table, ignored, read_options, refused
from phantora_py.launchers.srun import OPTIONS, gpus_per_node, job_size, job_variables
from phantora_py.launchers.torchrun import OUTPUT
from sim_server.errors import UsageError

_QUEUE = "there is no queue: the job begins at once"
SBATCH = Table(
    "sbatch",
    {
        **OPTIONS,
        "mail-type": ignored(_QUEUE),
        "mail-user": ignored(_QUEUE),
        "dependency": ignored(_QUEUE, "-d"),
        "requeue": ignored(_QUEUE, values=0),
        "no-requeue": ignored(_QUEUE, values=0),
        "open-mode": ignored(OUTPUT),
        "parsable": ignored(OUTPUT, values=0),
        "comment": ignored(_QUEUE),
        "wait": ignored(_QUEUE, "-W", values=0),
        "array": refused("each of its jobs is a run of its own", "-a"),
        "wrap": refused("give its command to phantora run"),
    },
)


def read_job(arguments: Sequence[str], text: str) -> Given:
    """What `sbatch` is given: options before the script, and those that the script's `text` has.

    Raises: UsageError for an unknown or refused option.
    """
    directives = [
        shlex.split(line.removeprefix("#SBATCH"), comments=True)
        for line in text.splitlines()
        if line.startswith("#SBATCH")
    ]
    given = read_options([word for line in directives for word in line], SBATCH)
    if given.rest:
        raise UsageError(f"The script's #SBATCH lines say {given.rest[0]}, which is no option.")
    on_line = read_options(arguments, SBATCH)
    given.values.update(on_line.values)
    given.refuse()
    given.rest = on_line.rest
    return given


def variables_of_job(given: Given, environment: Mapping[str, str]) -> dict[str, str]:
    """What the job's script sees, outside of the ranks."""
    nodes, tasks = job_size(given, environment)
    names = tuple(node_name(node) for node in range(nodes))
    place = Place(0, nodes * tasks, 0, nodes, 0, tasks, names, names[0], 0)
    name = given.text("job-name") or (os.path.basename(given.rest[0]) if given.rest else "job")
    variables = {**job_variables(place, name), "SLURMD_NODENAME": names[0]}
    gpus = gpus_per_node(given)
    if gpus is not None:
        variables["SLURM_GPUS_ON_NODE"] = variables["SLURM_GPUS_PER_NODE"] = str(gpus)
    if "ntasks-per-node" not in given:
        del variables["SLURM_NTASKS_PER_NODE"]
    return variables
