"""What has been run: one record and one data file per configuration, found again by its inputs.

The inputs are what decides the outcome, as far as it is known before: command, environment, cluster
and GPU in full, options, files named in command and options, our version and build. What a script
imports is not among them.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from phantora_py import __version__
from phantora_py.launch.environment import recorded_environment
from phantora_py.machine.installation import own_build
from phantora_py.sweep.plan import Configuration
from sim_server.cluster import gpu_of_node, load_cluster
from sim_server.errors import UsageError
from sim_server.files.output_file import require_output_directory, write_file

# How much of a file named in the command is looked at (assumed: scripts and settings are less).
_MOST_BYTES = 64 << 20
# Ends that another attempt would see again: finished, unsupported call, failed rank, deadlock.
_LASTING = (0, 3, 4, 5)


@dataclass(frozen=True)
class Result:
    """How a configuration ended. `data`: its data file, None if there is none. `cpu_s`: the
    processors' time that it took, without imports that it had from others, None where that is not
    known.
    """

    name: str
    exit_code: int
    message: str
    out_of_memory: bool
    wall_s: float
    data: Path | None
    cached: bool = False
    cpu_s: float | None = None


def inputs_of(configuration: Configuration) -> dict[str, Any]:
    """Everything that decides the outcome. Raises: UsageError for an unknown cluster."""
    cluster = load_cluster(configuration.run.get("cluster", "h100"))
    options = {name: value for name, value in configuration.run.items() if name != "cluster"}
    command = configuration.command
    return {
        "version": __version__,
        "build": own_build(),
        "command": list(command),
        "program": shutil.which(command[0]),
        "files": _digests([*command, *options.values()]),
        "environment": recorded_environment(os.environ) | dict(configuration.environment),
        "options": options,
        "cluster": cluster.to_dict(),
        "gpu": gpu_of_node(cluster).to_dict(),
    }


def gpus_of(plan: Sequence[Configuration]) -> set[str]:
    """The GPUs of the clusters. Raises: UsageError for an unknown cluster."""
    clusters = [load_cluster(one.run.get("cluster", "h100")).to_dict() for one in plan]
    groups = [group for one in clusters for group in one.get("node_groups") or [one]]
    return {group["gpu"] for group in groups}


def _digests(words: Sequence[str]) -> dict[str, str]:
    """Of the files that are named, also as `--option=FILE`."""
    names = [*words, *(word.partition("=")[2] for word in words)]
    return {name: _digest(Path(name)) for name in names if Path(name).is_file()}


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return f"{path.stat().st_size} {hashlib.sha256(file.read(_MOST_BYTES)).hexdigest()}"


def _cannot_write(directory: Path, error: OSError) -> UsageError:
    return UsageError(
        f"{directory} cannot be written to: {error.strerror}. Choose another place with -o."
    )


class Results:
    """A directory of results."""

    def __init__(self, directory: Path) -> None:
        """Raises: UsageError if nothing can be written there."""
        self.directory = directory
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _cannot_write(directory, error) from error
        require_output_directory(directory, "-o")

    def key(self, inputs: Mapping[str, Any]) -> str:
        """The name of the files of these inputs."""
        return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()[:16]

    def data(self, key: str) -> Path:
        """Where the data file belongs."""
        return self.directory / f"{key}.phr"

    def log(self, key: str) -> Path:
        """Where what the run prints belongs."""
        return self.directory / f"{key}.log"

    def task_file(self, key: str) -> Path:
        """Where a task belongs that another host runs."""
        return self.directory.absolute() / f"{key}.task"

    def find(self, key: str, name: str, retry: bool) -> Result | None:
        """What is known of these inputs, unless another attempt may end otherwise. `retry`: also
        of those that failed.
        """
        if not self.has(key):
            return None
        result = self.read(key, name)
        lasting = (0,) if retry else _LASTING
        if result.exit_code not in lasting or result.data is None or not result.data.is_file():
            return None
        return replace(result, cached=True)

    def has(self, key: str) -> bool:
        """Whether a result has been kept."""
        return self._record(key).exists()

    def read(self, key: str, name: str) -> Result:
        """The result that has been kept. Raises: UsageError if it cannot be read."""
        try:
            record = json.loads(self._record(key).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise UsageError(f"{self._record(key)} cannot be read: {error}. Remove it.") from error
        return Result(
            name=name,
            exit_code=record["exit_code"],
            message=record["message"],
            out_of_memory=record["out_of_memory"],
            wall_s=record["wall_s"],
            data=self.data(key) if record["data"] else None,
            cpu_s=record.get("cpu_s"),
        )

    def forget(self, key: str) -> None:
        """Removes the result, which is another attempt's to keep."""
        self._record(key).unlink(missing_ok=True)

    def keep(self, key: str, inputs: Mapping[str, Any], result: Result) -> None:
        """Writes how it ended, whole or not at all. Raises: UsageError if that is not possible."""
        record = asdict(result) | {"inputs": dict(inputs), "data": result.data and result.data.name}
        del record["cached"]
        write_file(self._record(key), json.dumps(record, indent=1).encode(), "-o")

    def _record(self, key: str) -> Path:
        return self.directory / f"{key}.json"
