"""What it costs the server to know how long the kernels of a run last.

    python benchmarks/pricing.py [FILE] [--ranks 64] [--rounds 5] [--json]

FILE is of a run; without one the GPT example is run first, data-parallel. Every signature of it
is priced once by the models, as the first rank that launches it has it done, and found again by the
text that every other rank announces it with. Nothing of this comes back in later iterations, whose
launches carry a number; it is compared with the wall time of one iteration all the same. The aim is
1 %.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from measurement import Results, median, parser
from report import cpu_s, make_file

from phantora_py.data import RunData
from phantora_py.profile.needs import signatures_of
from phantora_py.report.summary import summarise
from sim_server.log.history import History
from sim_server.settings import Settings
from sim_server.timings import model_timer


def measure(path: Path, rounds: int) -> Results:
    """The parts of pricing, and one iteration of the run."""
    data = RunData(path)
    settings = Settings.from_json(json.dumps(data.settings))
    signatures = [json.dumps(one).encode() for one in signatures_of(data)]
    history = History()

    def price() -> None:
        nonlocal history
        history, timer = History(), model_timer(settings)
        for signature in signatures:
            history.add_timing(signature, timer.time(json.loads(signature)))

    def find() -> None:
        for _ in range(data.ranks - 1):
            for signature in signatures:
                assert history.timing(signature) is not None
                history.timing_index(signature)

    parts: dict[str, list[float]] = {"priced once": [], "found by other ranks": []}
    for _ in range(rounds):
        parts["priced once"].append(cpu_s(price))
        parts["found by other ranks"].append(cpu_s(find))
    wall = summarise(data)["wall"]
    assert wall is not None
    assert wall["per_iteration_s"] is not None
    iteration_s = wall["per_iteration_s"]
    results = Results("Pricing kernels", ["what", "ms", "share of an iteration"])
    for name, times in parts.items():
        results.add(name, 1e3 * median(times), f"{median(times) / iteration_s:.2%}")
    results.add("an iteration, wall", 1e3 * iteration_s, None)
    results.notes.append(f"{data.ranks} ranks, {len(signatures)} signatures.")
    return results


def main() -> int:
    """Measures and prints."""
    options = parser(__doc__)
    options.add_argument("file", type=Path, nargs="?", help="a data file; default: of a new run")
    options.add_argument("--ranks", type=int, default=64, help="of the new run")
    options.add_argument("--rounds", type=int, default=5)
    arguments = options.parse_args()
    with tempfile.TemporaryDirectory() as name:
        path = arguments.file or make_file(Path(name), arguments.ranks)
        measure(path, arguments.rounds).show(arguments.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
