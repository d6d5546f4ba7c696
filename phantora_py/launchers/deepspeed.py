"""The command line of `deepspeed` and `python -m deepspeed.launcher.runner`.

Source: deepspeed/launcher/runner.py and launch.py of DeepSpeed 0.19.
"""

import os
from collections.abc import Mapping, Sequence

from phantora_py.launchers.hosts import even_slots, read_hostfile
from phantora_py.launchers.launch import Launch, Place
from phantora_py.launchers.options import Given, Table, honoured, ignored, read_options, refused
from phantora_py.launchers.torchrun import OUTPUT, RENDEZVOUS
from sim_server.errors import UsageError

_HOSTFILE = "/job/hostfile"
_CORES = "binding to this machine's cores would slow the simulation only"
_STARTS = "phantora starts every node of the job, without ssh"

DEEPSPEED = Table(
    "deepspeed",
    {
        "hostfile": honoured("-H"),
        "include": honoured("-i"),
        "exclude": honoured("-e"),
        "num-nodes": honoured(),
        "num-gpus": honoured("--num_accelerators"),
        "master-port": honoured(),
        "module": honoured(values=0),
        "no-python": honoured(values=0),
        "no-local-rank": honoured(values=0),
        "master-addr": ignored("the first simulated node is the master"),
        "node-rank": ignored(_STARTS),
        "launcher": ignored(_STARTS),
        "launcher-args": ignored(_STARTS),
        "no-ssh": ignored(_STARTS, values=0),
        "no-ssh-check": ignored(_STARTS, values=0),
        "force-multi": ignored(_STARTS, values=0),
        "ssh-port": ignored(_STARTS),
        "save-pid": ignored("there is no launcher process", values=0),
        "enable-each-rank-log": ignored(OUTPUT),
        "log-level": ignored("there is no launcher that logs"),
        "quiet": ignored("there is no launcher that logs", "-q", values=0),
        "bind-cores-to-rank": ignored(_CORES, values=0),
        "bind-core-list": ignored(_CORES),
        "min-elastic-nodes": ignored(RENDEZVOUS),
        "max-elastic-nodes": ignored(RENDEZVOUS),
        "elastic-training": ignored(RENDEZVOUS, values=0),
        "venv-script": refused("activate the environment before phantora run"),
        "autotuning": refused(
            "it starts many launches and measures them; compare configurations with phantora sweep"
        ),
    },
    argparse=True,
)


def parse_deepspeed(arguments: Sequence[str], environment: Mapping[str, str]) -> Launch:
    """Understands the arguments that follow `deepspeed`.

    `environment` does not matter: DeepSpeed reads its defaults from a file of hosts.

    Raises: UsageError for an unknown or refused option, a bad value, or no program to run.
    """
    del environment
    given = read_options(arguments, DEEPSPEED)
    given.refuse()
    if not given.rest:
        raise UsageError("The deepspeed command names no script to run.")
    nodes, processes = _size(given)
    passes_local_rank = "no-local-rank" not in given
    return Launch(
        launcher="deepspeed",
        program=given.rest,
        nodes=nodes,
        processes_per_node=processes,
        master_port=given.number("master-port"),
        module="module" in given,
        python="no-python" not in given,
        notes=given.notes(),
        local_rank_argument="--local_rank={}" if passes_local_rank else None,
        rank_variables=_variables,
        size_option="--num_gpus",
        nodes_option="--num_nodes",
    )


def _variables(place: Place) -> Mapping[str, str]:
    return {
        "CROSS_RANK": str(place.node),
        "CROSS_SIZE": str(place.nodes),
        "LOCAL_SIZE": str(place.ranks_per_node),
    }


def _size(given: Given) -> tuple[int | None, int | None]:
    """Nodes and processes per node; None: as many as there are."""
    processes = given.number("num-gpus", least=1)
    nodes = given.number("num-nodes", least=1)
    hostfile = given.text("hostfile") or (_HOSTFILE if os.path.isfile(_HOSTFILE) else None)
    if hostfile is not None:
        hosts = read_hostfile(hostfile, "deepspeed --hostfile")[:nodes]
        slots = even_slots(hosts, f"deepspeed --hostfile {hostfile}")
        nodes, processes = len(hosts), processes or slots
    for name in ("include", "exclude"):
        text = given.text(name)
        if text is not None:
            if processes is not None or nodes is not None:
                raise UsageError(
                    f"deepspeed --{name} is not understood beside --num_gpus, --num_nodes or a "
                    "file of hosts: say with --num_nodes and --num_gpus how many there are."
                )
            processes = _chosen(name, text)
    return nodes, processes


def _chosen(name: str, text: str) -> int:
    """How many GPUs `localhost:0,1` includes."""
    host, _, slots = text.partition(":")
    numbers = {slot for slot in slots.split(",") if slot.isdecimal()}
    if name == "exclude" or "@" in text or host != "localhost" or not numbers:
        raise UsageError(
            f"deepspeed --{name} {text} cannot be simulated: --include localhost:0,1 is "
            "understood; else say with --num_nodes and --num_gpus how many GPUs there are."
        )
    return len(numbers)
