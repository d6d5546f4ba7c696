"""Processor time of intercepted calls: launches, cuBLAS, events, and what frameworks ask in
between.

    python benchmarks/launch_cost.py [--json]

Compiles launch_cost.c (gcc), runs it as a rank of a virtual H100 under the installed libraries, and
empties its channel as the host agent does. Each number is the median of 40 bursts of 4,000 calls;
the cases take turns. `among known values`: after some small copies to the device, whose values the
simulator keeps, so that every launch has to forget what it may overwrite. The aim is 300 ns per
launch.
"""

from __future__ import annotations

import os
import struct
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from measurement import Results, median, parser

from phantora_py._channel import ChannelSet
from phantora_py.launch.libraries import preload_list, shim_directory
from phantora_py.launch.rundir import RunDirectory, present, write_settings
from sim_server.gpu import load_gpu
from sim_server.records import CELL_BYTES, RecordKind, ReplyStatus, payload_cells, position_of

PROGRAM = Path(__file__).with_suffix(".c")
# PyTorch's kernels are known by the library that they are in.
STUBS = "static char stubs[3][16]; char* torch_stub(int kernel) { return stubs[kernel]; }"
# What `phantora run` uses by default; see `phantora run --help`.
VALUES_THRESHOLD_BYTES = 64 << 10


def compile_program(directory: Path) -> Path:
    """The program, linked against our libraries, and one named as PyTorch's are."""
    binary = directory / "launch_cost"
    torch = str(directory / "libtorch_stubs.so")
    stubs = ["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", torch]
    subprocess.run(stubs, input=STUBS, text=True, check=True)
    libraries = [str(path) for path in preload_list(shim_directory())]
    command = ["gcc", "-std=c11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Werror", str(PROGRAM)]
    linked = [*libraries, torch, f"-Wl,-rpath,{directory}"]
    subprocess.run([*command, "-o", str(binary), *linked], check=True)
    return binary


def prepare(directory: Path, host_time: str) -> dict[str, str]:
    """Writes the settings of a run of one rank; returns the environment of that rank."""
    settings = {
        **load_gpu("h100").shim_keys(),
        "torch.list_kib": "4",
        "ranks": "1",
        "gpu.count": "1",
        "host_time": host_time,
        "unsupported": "stop",
        "values.threshold_bytes": str(VALUES_THRESHOLD_BYTES),
    }
    write_settings(RunDirectory(directory), settings, present())
    # No key is recorded: looking one up costs the same.
    RunDirectory(directory).host_gaps.write_text("")
    preload = ":".join(str(path) for path in preload_list(shim_directory()))
    run = {"PHANTORA_RUN_DIR": str(directory), "PHANTORA_RANK": "0", "LD_PRELOAD": preload}
    return {**os.environ, **run}


def waits(cells: bytes) -> Iterator[int]:
    """Slots for the answers: every 256 launches a rank asks how far the GPU has come."""
    at = 0
    while at < len(cells):
        kind = RecordKind(cells[at])
        args = struct.unpack_from("<5Q", cells, at + 24)
        if kind == RecordKind.WAIT:
            yield args[position_of(RecordKind.WAIT, "slot")]
        at += CELL_BYTES * (1 + (payload_cells(args[0]) if kind.has_payload else 0))


def measure(directory: Path, host_time: str) -> dict[str, list[float]]:
    """Median nanoseconds per call of every case, without known values and among them."""
    binary = compile_program(directory)
    environment = prepare(directory, host_time)
    channels = ChannelSet(str(directory), [0])
    output = directory / "output"
    with output.open("w") as file:
        rank = subprocess.Popen([str(binary)], env=environment, stdout=file)
        while rank.poll() is None:
            for number, clock_ns, cells in channels.poll(1):
                for slot in waits(cells):
                    channels.answer(number, slot, ReplyStatus.DONE, clock_ns, 0)
    channels.close()
    if rank.returncode != 0:
        raise SystemExit(f"{binary.name} ended with status {rank.returncode}")
    bursts: dict[tuple[str, str], list[float]] = defaultdict(list)
    for line in output.read_text().splitlines():
        known, name, cost_ns = line.split("\t")
        bursts[name, known].append(float(cost_ns))
    names = dict.fromkeys(name for name, _ in bursts)
    return {name: [median(bursts[name, known]) for known in "01"] for name in names}


def main() -> None:
    """Measure and print."""
    options = parser(__doc__)
    options.add_argument(
        "--host-time", default="fixed", choices=("fixed", "measured", "recorded", "off")
    )
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        costs_ns = measure(Path(directory), chosen.host_time)
    columns = ("call", "ns", "ns among known values")
    results = Results(f"Intercepted calls, host time {chosen.host_time}", columns)
    for name, (plain_ns, among_known_ns) in costs_ns.items():
        results.add(name, plain_ns, among_known_ns)
    results.show(chosen.json)


if __name__ == "__main__":
    main()
