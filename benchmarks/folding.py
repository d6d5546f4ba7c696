"""What folding saves, and what a large folded run costs.

    python benchmarks/folding.py [--ranks 16] [--large 4096] [--runs 3] [--json]

examples/train_llama.py with FSDP2, four steps of a small shape, on H100s, 8 to a node. The first
row is a run of all ranks, the second the same folded to one with one witness, in turn; `ratio` is
the folded one's share of its core time. The third is a folded run of many ranks, without a witness.
Core and wall seconds are those of the whole command, as the report has them; memory is the most at
one time (PSS).
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from measurement import Results, median, parser

from phantora_py.launch.module import module_command

PROGRAM = Path(__file__).parent.parent / "examples" / "train_llama.py"
SHAPE = [
    *("--layers", "4", "--width", "512", "--hidden", "1408", "--heads", "8"),
    *("--vocabulary", "1024", "--sequence", "256", "--steps", "4"),
]
COLUMNS = ("run", "iteration ms (virtual)", "core s", "ratio", "wall s", "PSS MiB")


def run(ranks: int, *folding: str) -> dict[str, float]:
    """One run to its end."""
    with tempfile.TemporaryDirectory() as directory:
        output = Path(directory) / "run.phr"
        done = subprocess.run(
            [
                *module_command("phantora_py"),
                *("run", "--json", "-o", str(output), "--ranks", str(ranks), *folding, "--"),
                *(sys.executable, str(PROGRAM), *SHAPE),
            ],
            check=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
    summary = json.loads(done.stdout)
    return {
        "iteration_ms": summary["iterations"]["median_ns"] / 1e6,
        "core_s": summary["wall"]["core_seconds"],
        "wall_s": summary["wall"]["total_s"],
        "pss_mib": summary["host_memory"]["total_pss_bytes"] / (1 << 20),
    }


def main() -> None:
    """Prints the results."""
    options = parser(__doc__)
    options.add_argument("--ranks", type=int, default=16, help="of the runs that are compared")
    options.add_argument("--large", type=int, default=4096, help="of the large folded run")
    options.add_argument("--runs", type=int, default=3)
    arguments = options.parse_args()
    few, many = arguments.ranks, arguments.large
    kinds = {
        f"{few} ranks": (few,),
        f"{few} ranks, folded": (few, "--fold", "1", "--witness", "1"),
        f"{many} ranks, folded": (many, "--fold", "1", "--witness", "0"),
    }
    found: dict[str, list[dict[str, float]]] = {name: [] for name in kinds}
    for _ in range(arguments.runs):
        for name, (ranks, *folding) in kinds.items():
            found[name].append(run(ranks, *folding))
    results = Results("folding", COLUMNS)
    whole_s = median(one["core_s"] for one in found[f"{few} ranks"])
    for name, runs in found.items():
        middle = {key: median(one[key] for one in runs) for key in runs[0]}
        ratio = middle["core_s"] / whole_s if name == f"{few} ranks, folded" else None
        results.add(
            *(name, middle["iteration_ms"], middle["core_s"], ratio),
            *(middle["wall_s"], middle["pss_mib"]),
        )
    results.show(arguments.json)


if __name__ == "__main__":
    main()
