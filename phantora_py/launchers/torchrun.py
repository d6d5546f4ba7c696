"""torchrun's command line, as far as a simulated launch can honour it, and its predecessor's.

`python -m torch.distributed.launch` has one option more, and without it gives scripts their local
rank as an argument.

It must not import torch: the torch of the traced program may belong to another interpreter.

Source: torch/distributed/run.py and launch.py of PyTorch 2.15.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from phantora_py.launchers.launch import Launch
from phantora_py.launchers.options import (
    Option,
    Table,
    honoured,
    ignored,
    number,
    read_options,
    refused,
)
from sim_server.errors import UsageError

RENDEZVOUS = "phantora starts all nodes itself, so there is nobody to meet"
OUTPUT = "the data file and --log-dir hold the output of every rank, --rank chooses what is shown"

_OPTIONS: Mapping[str, Option] = {
    "nnodes": honoured(),
    "nproc-per-node": honoured(),
    "standalone": honoured(values=0),
    "rdzv-id": honoured(),
    "role": honoured(),
    "module": honoured("-m", values=0),
    "no-python": honoured(values=0),
    "run-path": honoured(values=0),
    "master-port": honoured(),
    "local-ranks-filter": honoured(),
    "rdzv-backend": ignored(RENDEZVOUS),
    "rdzv-endpoint": ignored(RENDEZVOUS),
    "rdzv-conf": ignored(RENDEZVOUS),
    "node-rank": ignored("phantora starts every node of the job"),
    "master-addr": ignored("the first simulated node is the master"),
    "local-addr": ignored("simulated nodes have addresses of their own"),
    "max-restarts": honoured(),
    "monitor-interval": ignored("phantora is told at once when a rank ends"),
    "start-method": ignored("phantora starts the ranks in its own way"),
    "event-log-handler": ignored("there is no elastic agent whose events could be logged"),
    "log-dir": honoured(),
    "redirects": ignored(OUTPUT, "-r"),
    "tee": ignored(OUTPUT, "-t"),
    "log-line-prefix-template": ignored(OUTPUT),
    "duplicate-stdout-filters": ignored(OUTPUT),
    "duplicate-stderr-filters": ignored(OUTPUT),
    "logs-specs": ignored(OUTPUT),
    "numa-binding": ignored("binding to this machine's cores would slow the simulation only"),
    "signals-to-handle": ignored("phantora handles signals itself"),
    "shutdown-timeout": ignored("phantora stops ranks within seconds"),
    "virtual-local-rank": refused(
        "hiding the other GPUs of a node from a rank is not simulated", values=0
    ),
    "print-completion": refused("it does not start a program"),
}

TORCHRUN = Table("torchrun", _OPTIONS, argparse=True)
LAUNCH = Table(
    "torch.distributed.launch", {**_OPTIONS, "use-env": honoured(values=0)}, argparse=True
)


def parse_torchrun(
    arguments: Sequence[str], environment: Mapping[str, str], launch: bool = False
) -> Launch:
    """Understands the arguments that follow `torchrun`, or torch.distributed.`launch`.

    `environment` supplies the defaults that torchrun reads from PET_* variables.

    Raises: UsageError for an unknown or refused option, a bad value, or no program to run.
    """
    table = LAUNCH if launch else TORCHRUN
    given = read_options(arguments, table)
    passes_local_rank = launch and "use-env" not in given
    for name, option in table.options.items():
        value = environment.get("PET_" + name.upper().replace("-", "_"))
        if value is not None and name not in given and (option.values or value == "1"):
            given.values[name] = [(value,)]
    given.refuse()
    if not given.rest:
        raise UsageError("The torchrun command names no program to run.")
    if "module" in given and "no-python" in given:
        raise UsageError("torchrun takes --module or --no-python, not both.")
    if "no-python" in given and passes_local_rank:
        raise UsageError("torch.distributed.launch takes --no-python only with --use-env.")
    log_dir = given.text("log-dir")
    nodes = given.text("nnodes")
    return Launch(
        launcher=table.launcher,
        nodes=None if nodes is None else _node_count(nodes),
        processes_per_node=processes_per_node(
            "torchrun --nproc-per-node", given.text("nproc-per-node") or "1"
        ),
        run_id=given.text("rdzv-id") or "none",
        role=given.text("role") or "default",
        master_port=given.number("master-port"),
        max_restarts=given.number("max-restarts") or 0,
        module="module" in given,
        # A script run by path within torchrun's own interpreter is a script all the same.
        python="no-python" not in given or "run-path" in given,
        shown_local_ranks=_shown(given.text("local-ranks-filter")),
        notes=given.notes(),
        program=given.rest,
        log_dir=Path(log_dir) if log_dir else None,
        local_rank_argument="--local-rank={}" if passes_local_rank else None,
    )


def processes_per_node(what: str, text: str) -> int | None:
    """None: one for each GPU. Raises: UsageError for what is no number, `gpu` or `auto`."""
    if text in ("gpu", "auto"):
        return None
    if not text.isdecimal() or int(text) < 1:
        raise UsageError(f"{what} {text} cannot be simulated: it takes a number, gpu or auto.")
    return int(text)


def _node_count(text: str) -> int:
    """`4`, or `MIN:MAX` of an elastic job, of which the simulation runs the largest form."""
    bounds = [number("torchrun --nnodes", part) for part in text.split(":")]
    if len(bounds) > 2 or bounds[0] < 1 or bounds[-1] < bounds[0]:
        raise UsageError(f"torchrun --nnodes takes N or MIN:MAX, not {text!r}.")
    return bounds[-1]


def _shown(text: str | None) -> frozenset[int] | None:
    if not text:
        return None
    return frozenset(number("torchrun --local-ranks-filter", part) for part in text.split(","))
