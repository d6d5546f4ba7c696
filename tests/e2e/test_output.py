"""What ranks print is not seen in virtual time."""

from __future__ import annotations

from pathlib import Path

import pytest
from phantora_runs import PROGRAMS, Phantora

pytestmark = pytest.mark.torch

PROGRAM = PROGRAMS / "talkative.py"
MUCH_BYTES = 2_000_000

TALKING_WORKERS = """
import multiprocessing, sys

def talk(worker):
    for line in range(2000):
        print(worker, line)

if __name__ == "__main__":
    import torch

    torch.ones(1, device="cuda").item()
    context = multiprocessing.get_context(sys.argv[1])
    workers = [context.Process(target=talk, args=(worker,)) for worker in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
"""


def test_output_costs_no_virtual_time(phantora: Phantora) -> None:
    """Megabytes or nothing: one digest; and all of it arrives."""
    digests = set()
    for size_bytes in (0, MUCH_BYTES):
        run = phantora.run(["--ranks", "2"], [PROGRAM, str(size_bytes)])
        assert run.exit_code == 0, run.errors
        kept = run.data.log(1).get("stdout", b"")
        assert kept.count(b"\0") == run.output.count("\0") == 4 * size_bytes
        assert run.output.count("x" * 99 + "\n") == 4 * size_bytes // 100
        digests.add(run.data.run["digest"])
    assert len(digests) == 1


@pytest.mark.parametrize("how", ["spawn", "fork"])
def test_lines_of_workers_are_whole(
    phantora: Phantora, tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two processes of a rank that print at once share its output: no line gets into another."""
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    program = tmp_path / "talking_workers.py"
    program.write_text(TALKING_WORKERS)
    run = phantora.run(["--ranks", "1"], [program, how])
    assert run.exit_code == 0, run.errors
    said = {f"{worker} {line}" for worker in range(2) for line in range(2000)}
    assert said <= set(run.output.splitlines())
