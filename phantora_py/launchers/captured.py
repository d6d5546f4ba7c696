"""Launchers that read files and end in torchrun's own code: Accelerate's, Fabric's, torchtune's.

They are run in the program's interpreter up to the point where they would start processes
(`capture`), so that their defaults, their files and their variables are their own.
"""

import json
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from phantora_py.launchers import capture
from phantora_py.launchers.launch import FoundGpus, Launch
from phantora_py.launchers.torchrun import parse_torchrun
from sim_server.errors import UsageError

# Long enough to import PyTorch from a slow file system (assumed).
_LIMIT_S = 300
# What a simulated launch has its own of.
_OWN_VARIABLES = ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "LOCAL_RANK", "NODE_RANK")


@dataclass(frozen=True)
class Captured:
    """A launcher of this kind. `verbs`: first arguments that start a program; others are refused.
    `passes_verb`: whether its function reads them itself. `hint`: options for the size.
    """

    name: str
    module: str
    function: str
    verbs: tuple[str, ...]
    size_option: str
    nodes_option: str
    passes_verb: bool = True


ACCELERATE = Captured(
    *("accelerate", "accelerate.commands.launch", "main", ("launch",)),
    *("--num_processes", "--num_machines", False),
)
FABRIC = Captured(
    *("fabric", "lightning.fabric.cli", "_main", ("run",)), *("--devices", "--num-nodes")
)
TUNE = Captured(
    *("tune", "torchtune._cli.tune", "main", ("run",)), *("--nproc-per-node", "--nnodes")
)


def parse_captured(
    launcher: Captured, arguments: Sequence[str], interpreter: str, gpus: FoundGpus
) -> Launch:
    """Understands the arguments that follow the launcher's name, by asking the launcher.

    Raises: UsageError for arguments that start no program, or that the launcher itself refuses.
    """
    verb = arguments[0] if arguments else ""
    if verb not in launcher.verbs:
        known = " or ".join(f"{launcher.name} {one}" for one in launcher.verbs)
        raise UsageError(
            f"`{launcher.name} {verb}`".replace(" `", "`")
            + f" starts no ranks: phantora run takes {known}."
        )
    passed = arguments if launcher.passes_verb else arguments[1:]
    found = _ask(launcher, passed, interpreter, gpus)
    variables = {
        name: value
        for name, value in found["variables"].items()
        if name not in _OWN_VARIABLES and not name.startswith("TORCHELASTIC_")
    }
    what = found["what"]
    if found["kind"] == "torchrun":
        launch = parse_torchrun(_torchrun_words(what), {})
    else:
        program = tuple(map(str, what))
        launch = Launch(
            *("", program),
            nodes=1,
            python=found["kind"] == "script",
            torchrun_variables=False,  # It starts one process, which has no rank.
        )
    return replace(
        launch,
        launcher=f"{launcher.name} {verb}",
        variables=variables,
        size_option=launcher.size_option,
        nodes_option=launcher.nodes_option,
    )


def _torchrun_words(arguments: Mapping[str, Any]) -> list[str]:
    """A command line for torchrun's arguments as the launcher has made them."""
    words = ["--nnodes", str(arguments["nnodes"])]
    words += ["--nproc-per-node", str(arguments["nproc_per_node"])]
    words += ["--max-restarts", str(arguments.get("max_restarts") or 0)]
    if arguments.get("role"):
        words += ["--role", str(arguments["role"])]
    words += [
        f"--{name.replace('_', '-')}" for name in ("module", "no_python") if arguments.get(name)
    ]
    if arguments.get("master_port"):
        words += ["--master-port", str(arguments["master_port"])]
    words += ["--", str(arguments["training_script"])]
    return words + [str(one) for one in arguments["training_script_args"]]


def _ask(
    launcher: Captured, arguments: Sequence[str], interpreter: str, gpus: FoundGpus
) -> dict[str, Any]:
    with tempfile.TemporaryFile("w+", encoding="utf-8") as answer:
        words = [interpreter, capture.__file__, str(answer.fileno()), json.dumps(asdict(gpus))]
        words += [launcher.module, launcher.function, *arguments]
        # No GPU of this machine is any of the launcher's business.
        environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
        try:
            done = subprocess.run(
                words,
                env=environment,
                pass_fds=[answer.fileno()],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=_LIMIT_S,
                stdin=subprocess.DEVNULL,
                check=False,
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise UsageError(f"{launcher.name} does not run: {error}") from error
        answer.seek(0)
        text = answer.read()
    if done.returncode != 0 or not text:
        said = done.stdout.strip()[-2000:]
        raise UsageError(
            f"{launcher.name} of {interpreter} does not start the program "
            f"({Path(words[1]).name} ended with {done.returncode}):\n{said}"
        )
    found: dict[str, Any] = json.loads(text)
    return found
