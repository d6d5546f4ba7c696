"""Placements carried out: each is a program under `phantora run`, whose iteration is measured."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from phantora_py.launch import fork_servers
from phantora_py.launch.module import module_command
from phantora_py.plan import program
from phantora_py.plan.tables import Table, read_tables
from sim_server.errors import UsageError

_ITERATIONS = 6
# Of what a failed program said, the last characters.
_TAIL = 2000


def confirm(
    plans: Sequence[dict[str, Any]], tables: Path, batch: int, run_options: Sequence[str]
) -> list[dict[str, Any]]:
    """Of each plan the median iteration. Raises: UsageError if a program does not end well."""
    temporary = tempfile.TemporaryDirectory(prefix="phantora-plan-")
    with fork_servers.offered(), temporary as folder:
        return [_carried_out(Path(folder), plan, tables, batch, run_options) for plan in plans]


def _carried_out(
    folder: Path, plan: dict[str, Any], tables: Path, batch: int, run_options: Sequence[str]
) -> dict[str, Any]:
    file, listed, data = folder / "plan.json", folder / "tables.json", folder / "run.phr"
    file.write_text(json.dumps(plan), encoding="utf-8")
    listed.write_text(json.dumps(program_tables(read_tables(tables))), encoding="utf-8")
    command = [sys.executable, program.__file__, str(file), str(listed), str(batch)]
    told = ["--quiet", "-o", str(data), f"--lookups={tables.resolve()}", *run_options]
    _run("run", *told, "--", *command, str(_ITERATIONS))
    report = json.loads(_run("report", str(data), "--json"))
    iterations = report["iterations"]
    if not iterations["count"]:
        raise UsageError("the program of a plan had no iterations; this is a fault of phantora")
    return {"median_ns": iterations["median_ns"], "iterations": iterations["count"]}


def program_tables(tables: Sequence[Table]) -> list[dict[str, Any]]:
    """As the program reads them: lookups of a sample are a number, however the file says it."""
    return [{**table.spec, "pooling": table.pooling.mean} for table in tables]


def _run(verb: str, *arguments: str) -> str:
    done = subprocess.run(
        [*module_command("phantora_py"), verb, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "NO_COLOR": "1"},
    )
    if done.returncode:
        said = (done.stdout + done.stderr)[-_TAIL:]
        raise UsageError(f"--confirm: phantora {verb} ended with {done.returncode}:\n{said}")
    return done.stdout
