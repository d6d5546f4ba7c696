"""Runs rank programs of this folder under our libraries, with the stand-in agent."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stand_in_agent import StandInAgent, write_settings

from phantora_py.launch.libraries import preload_list, preload_value, shim_directory

SYNTHETIC_READ = 51


class RankRun:
    """What the ranks of one scenario printed, and their records."""

    def __init__(
        self,
        program: str,
        scenario: str,
        run_dir: Path,
        ranks: int = 1,
        settings: Mapping[str, str] | None = None,
        *,
        agent: type[StandInAgent] = StandInAgent,
    ) -> None:
        write_settings(run_dir, ranks, settings or {})
        serving = agent(run_dir, ranks)
        command = [sys.executable, str(Path(__file__).with_name(program)), scenario]
        try:
            processes = [_start(command, run_dir, rank, ranks) for rank in range(ranks)]
            ended = [(p.communicate(timeout=120), p.returncode) for p in processes]
        finally:
            serving.close()
        for (_, errors), code in ended:
            assert code == 0, errors
        self.results: list[dict[str, Any]] = [json.loads(output) for (output, _), _ in ended]
        self.records = serving.records

    def everywhere(self, name: str) -> str:
        """A result that all ranks must agree on."""
        values = {result[name] for result in self.results}
        assert len(values) == 1, values
        return str(values.pop())

    def of_kind(self, rank: int, kind: int) -> list[bytes]:
        """The records of one kind."""
        return [record for record in self.records[rank] if record[0] == kind]

    def synthetic_bytes(self, rank: int = 0) -> list[int]:
        """Sizes of the reads that no rule could answer, in order."""
        return [struct.unpack_from("<Q", r, 24)[0] for r in self.of_kind(rank, SYNTHETIC_READ)]


def _start(command: list[str], run_dir: Path, rank: int, ranks: int) -> subprocess.Popen[str]:
    environment = {
        **os.environ,
        "LD_PRELOAD": preload_value(preload_list(shim_directory()), os.environ),
        "PHANTORA_RUN_DIR": str(run_dir),
        "PHANTORA_RANK": str(rank),
        "RANKS": str(ranks),
    }
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
