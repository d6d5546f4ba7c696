"""Data files of programs that the engine has played: spans with the records they come from."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

from engine_harness import Program, play
from made_runs import make_run

from phantora_py.data import RunData
from sim_server._engine import Ready
from sim_server.log.run_log import ANSWER
from sim_server.records import NcclOpKind, WaitKind


def played_run(
    path: Path,
    programs: Sequence[Program],
    operation_ns: Callable[[Ready], int] = lambda _: 1000,
    outside_ns: Sequence[tuple[int, int]] = (),
) -> RunData:
    """`outside_ns`: when rank 0 waited for others outside the GPU."""
    history = play(programs, operation_ns=operation_ns)
    members = list(range(len(programs)))
    operations = [
        {
            **{
                "kind": NcclOpKind(ready.kind).name.lower(),
                "comm": 1,
                "bytes": 8,
                "site": "a.py:1",
            },
            **{"members": members, "arrivals_ns": ready.arrivals_ns, "moves_ns": ready.time_ns},
            "ends_ns": [ready.time_ns + operation_ns(ready)] * len(members),
        }
        for ready in history.ready
    ]
    kernels = max(len(program.timings) for program in programs) + 1
    make_run(
        path,
        [()] * len(programs),
        spans=history.spans,
        operations=operations,
        timings=[
            {"name": f"k{number}", "class": "gemm", "tier": "modelled", "duration_ns": 1}
            for number in range(kernels)
        ],
    )
    with zipfile.ZipFile(path, "a") as archive:
        for rank, program in enumerate(programs):
            records = b"".join(cells for cells, _, _ in program.steps)
            archive.writestr(f"records/rank-{rank}/000000.bin", records)
        answers = (ANSWER.pack(WaitKind.RESUME, 0, 0, *times_ns) for times_ns in outside_ns)
        archive.writestr("answers/rank-0/000000.bin", b"".join(answers))
    return RunData(path)
