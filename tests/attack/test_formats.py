"""Wrong inputs end in a result or a sentence, whatever is wrong: `nox -s attack` tries many."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from amounts import SEED, inputs

EXAMPLES = inputs(100)
FORMATS = (
    *("archive", "cache", "cluster", "data", "import"),
    *("load", "log", "plan", "records", "resimulation"),
)
FUZZ = Path(__file__).parent / "fuzz.py"
_S_PER_EXAMPLE = 0.5
_START_S = 120


@pytest.mark.timeout(_START_S + EXAMPLES * _S_PER_EXAMPLE + 60)
@pytest.mark.parametrize("name", FORMATS)
def test_wrong_inputs(name: str) -> None:
    """No traceback, no exit code that is not documented, no memory without bound, no hang."""
    words = [sys.executable, "-P", str(FUZZ), name, "--seed", str(SEED)]
    done = subprocess.run(
        [*words, "--examples", str(EXAMPLES)],
        check=False,
        capture_output=True,
        text=True,
        timeout=_START_S + EXAMPLES * _S_PER_EXAMPLE,
    )
    found = [json.loads(line) for line in done.stdout.splitlines()]
    again = f"python tests/attack/fuzz.py {name} --examples 1 --seed"
    told = "\n".join(f"{again} {one['seed']}\n{one['said']}" for one in found[:5])
    assert (done.returncode, found) == (0, []), f"{len(found)} found\n{told}\n{done.stderr[-4000:]}"
