"""Host time that is counted against host time that is measured, program by program.

    python benchmarks/host_time_counted.py --cpu FILE [--json] [--programs NAME,NAME]

Each program runs once, on one rank, timed and counted at the same time (`--host-samples`), so that
both are of the same work. What is compared is the program's own work: neither has the driver's part
of the calls. `fixed` is what that model charges for the same calls, less the driver's part. The
processor's times are those of `phantora calibrate-host`, whose pieces are none of these programs;
run that first, for the processor that you are on. Iterations after the third count.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from host_time_programs import PROGRAMS
from measurement import Results, parser

from phantora_py.calibrate.host_fit import counts_of, predicted_ns
from phantora_py.data import RunData
from phantora_py.launch.module import module_command
from sim_server.cpu import CALLS, CpuProfile, load_cpu
from sim_server.gpu import load_gpu

SCRIPT = Path(__file__).with_name("host_time_programs.py")
WARM = 3


def measure(directory: Path, name: str) -> list[Any]:
    """The samples of a program's iterations."""
    path = directory / "run.phr"
    words = [*module_command("phantora_py"), "run", "--quiet", "--ranks", "1", "-o", str(path)]
    words += ["--host-time", "measured", "--host-samples", "--", sys.executable, str(SCRIPT), name]
    subprocess.run(words, check=True, cwd=directory, stdout=subprocess.DEVNULL)
    samples = RunData(path).host_gaps["samples"]
    path.unlink()
    return list(samples)[1 + WARM :]


def times_of(cpu: CpuProfile) -> dict[str, float]:
    """By kind, in ns."""
    return {**cpu.works, **{f"call {call}": each_ns for call, each_ns in cpu.calls.items()}}


def fixed_ns(counts: Mapping[str, int]) -> float:
    """What `fixed` charges for these calls, less the driver's part."""
    host = load_gpu("h100").host
    own = {call: host[f"{call}_ns"] - host[f"driver_{call}_ns"] for call in CALLS}
    own["library"] = 0.0  # its launches are counted, too
    return sum(own[call] * counts[f"call {call}"] for call in CALLS)


def main() -> None:
    """Measure and print."""
    options = parser(__doc__)
    options.add_argument("--cpu", required=True, help="the file of this processor")
    options.add_argument("--programs", default=",".join(PROGRAMS), help="default: all")
    chosen = options.parse_args()
    times_ns = times_of(load_cpu(chosen.cpu))
    columns = ("program", "measured ms", "spread %", "counted / measured", "fixed / measured")
    results = Results("Host time of an iteration", (*columns, "launches", "us / launch"))
    errors: dict[str, list[float]] = {"counted": [], "fixed": []}
    with tempfile.TemporaryDirectory() as name:
        for program in chosen.programs.split(","):
            samples = measure(Path(name), program)
            # As the pieces: of the quarter that is least disturbed.
            spent_ns, _, high = statistics.quantiles((one["spent_ns"] for one in samples), n=4)
            counts = counts_of(samples[-1])
            counted, fixed = predicted_ns(times_ns, counts) / spent_ns, fixed_ns(counts) / spent_ns
            errors["counted"].append(abs(counted - 1))
            errors["fixed"].append(abs(fixed - 1))
            launches = counts["call launch"]
            figures = (spent_ns / 1e6, 100 * (high - spent_ns) / spent_ns, counted, fixed)
            results.add(program, *figures, float(launches), spent_ns / 1e3 / max(launches, 1))
    for model, found in errors.items():
        results.notes.append(
            f"{model}: median error {statistics.median(found):.0%}, worst {max(found):.0%}"
        )
    results.show(chosen.json)


if __name__ == "__main__":
    main()
