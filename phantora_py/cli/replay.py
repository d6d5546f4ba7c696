"""`phantora replay WHAT`: benchmarks made of execution traces (docs/traces.md)."""

from __future__ import annotations

import argparse
import json
import os
import secrets
import sys
from collections.abc import Callable
from pathlib import Path

from phantora_py.cli.commands import Parser
from phantora_py.data import RunData
from sim_server.errors import UsageError
from sim_server.files.output_file import require_output

_SALT_BYTES = 32
_ERROR = 0.1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    whats = parser.add_subparsers(metavar="WHAT", required=True, parser_class=Parser)

    def add(
        name: str, carry_out: Callable[[argparse.Namespace], None], help_text: str
    ) -> argparse.ArgumentParser:
        what = whats.add_parser(name, help=help_text, description=help_text)
        what.set_defaults(carry_out=carry_out)
        return what

    build = add("build", _build, "make a benchmark from execution traces")
    build.add_argument(
        "directory",
        type=Path,
        metavar="DIR",
        help="traces that `phantora run --execution-trace` or PyTorch's observer wrote",
    )
    _add_output(build, "X.bench", "the benchmark to write")
    build.add_argument(
        "--only", choices=["compute", "communication"], help="only operators of this kind"
    )
    build.add_argument(
        "--subgraph", metavar="NAME", help="only operators within annotations of that name"
    )
    build.add_argument(
        "--run",
        dest="traced_run",
        type=Path,
        metavar="ORIGINAL.phr",
        help="data file of the traced run; it tells when C++ code waited for collectives",
    )
    play = add("run", _run, "replay a benchmark in this process, as the rank that RANK says")
    play.add_argument("file", type=Path, metavar="X.bench", help="the benchmark")
    play.add_argument(
        "--device", choices=["cuda", "cpu"], help="default: cuda if there is one, else cpu"
    )
    hide_help = "remove names and texts from a benchmark, to share it"
    _add_obfuscate_arguments(add("obfuscate", _obfuscate, hide_help))
    scale_help = "rewrite a benchmark for another number of data-parallel ranks"
    _add_scale_arguments(add("scale", _scale, scale_help))
    score = add("score", _score, "compare the replay's run with the original's")
    score.add_argument("replayed", type=Path, metavar="REPLAY.phr", help="data file of the replay")
    score.add_argument(
        "original", type=Path, metavar="ORIGINAL.phr", help="data file of the traced run"
    )
    score.add_argument("--json", action="store_true", help="print the figures as JSON")


def _add_output(parser: argparse.ArgumentParser, metavar: str, help_text: str) -> None:
    parser.add_argument("-o", "--output", type=Path, required=True, metavar=metavar, help=help_text)


def _add_obfuscate_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="X.bench", help="the benchmark")
    _add_output(parser, "Y.bench", "the obfuscated benchmark to write")
    parser.add_argument(
        "--level",
        type=int,
        choices=[1, 2, 3],
        default=1,
        help="1 (default): texts become tokens; operators of other libraries, or with texts of the "
        "program, become proxies; 2: also those of torchvision and FBGEMM; 3: also, "
        "sizes of tensors are rounded",
    )
    parser.add_argument(
        "--error",
        type=float,
        metavar="E",
        help="with --level 3: the most by which a size may change (default: 0.1, 10 %%)",
    )


def _add_scale_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="X.bench", help="the benchmark")
    parser.add_argument(
        "--set",
        dest="change",
        required=True,
        metavar="NAME=SIZE,...",
        help="new sizes of data-parallel dimensions, e.g. dp=64 or replicate=2,shard=32",
    )
    parser.add_argument(
        "--mesh",
        metavar="NAME=SIZE,...",
        help="the device mesh of the traced program, outermost dimension first, e.g. "
        "pp=2,dp=4,tp=2 (default: all ranks are data-parallel, dp)",
    )
    _add_output(parser, "Y.bench", "the benchmark to write")


def run(options: argparse.Namespace) -> int:
    """Carries it out. Raises: UsageError."""
    options.carry_out(options)
    return 0


def _build(options: argparse.Namespace) -> None:
    from phantora_py.replay.build import build, coverage  # noqa: PLC0415
    from phantora_py.replay.container import write_benchmark  # noqa: PLC0415
    from phantora_py.replay.waits import add_waits, tells_waits  # noqa: PLC0415

    _require_torch()
    require_output(options.output, "-o")
    benchmark = build(options.directory, options.only, options.subgraph)
    if options.traced_run is not None:
        if options.only or options.subgraph:
            raise UsageError("--run needs the whole trace: leave --only and --subgraph out.")
        add_waits(benchmark, RunData(options.traced_run))
    elif not tells_waits(benchmark) and any(
        "group" in event for told in benchmark.ranks for event in told["events"]
    ):
        print(
            "note: these traces have no nodes of waits for collectives; with --run ORIGINAL.phr "
            "the waits are the traced run's",
            file=sys.stderr,
        )
    write_benchmark(benchmark, options.output)
    operators, proxies = coverage(benchmark)
    print(
        f"{benchmark.head['ranks']} ranks, {operators:,} operators by their schemas, "
        f"{sum(proxies.values()):,} proxies"
    )
    for name, count in sorted(proxies.items()):
        print(f"  proxy of {name}: {count:,}")
    if not benchmark.head.get("has_strides", True):
        print("  the traces tell no strides: tensors are taken to be dense, also transposed ones")
    if not benchmark.head["has_streams"]:
        print("  the traces tell of no streams but the default one: work overlaps less")


def _run(options: argparse.Namespace) -> None:
    from phantora_py.replay.container import read_benchmark  # noqa: PLC0415
    from phantora_py.replay.player import Player  # noqa: PLC0415

    _require_torch()
    import torch  # noqa: PLC0415

    rank = _number("RANK", 0)
    benchmark = read_benchmark(options.file, rank)
    if (ranks := _number("WORLD_SIZE", 1)) != benchmark.head["ranks"]:
        raise UsageError(
            f"{options.file} has {benchmark.head['ranks']} ranks, and WORLD_SIZE says {ranks}: "
            "start as many processes."
        )
    device = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
    if device == "cuda":
        local = _number("LOCAL_RANK", 0)
        torch.cuda.set_device(local)
        device = f"cuda:{local}"
    player = Player(benchmark, rank, device)
    player.run()
    if rank == 0:
        print(f"replayed {len(benchmark.ranks[0]['events']):,} events a rank on {device}")
        for name, count in sorted(player.substituted.items()):
            print(f"  proxy of {name}: {count:,}")
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def _obfuscate(options: argparse.Namespace) -> None:
    from phantora_py.replay.buckets import bucket, change_lines  # noqa: PLC0415
    from phantora_py.replay.container import read_benchmark, write_benchmark  # noqa: PLC0415
    from phantora_py.replay.obfuscate import obfuscate  # noqa: PLC0415

    _require_torch()
    require_output(options.output, "-o", [options.file])
    if options.error is not None and options.level != 3:
        raise UsageError("--error is for --level 3: lower levels change no sizes.")
    salt = secrets.token_bytes(_SALT_BYTES)
    benchmark, replaced = obfuscate(read_benchmark(options.file), min(options.level, 2), salt)
    lines = [f"  proxy of {name}: {count:,}" for name, count in sorted(replaced.items())]
    if options.level == 3:
        error = _ERROR if options.error is None else options.error
        benchmark, change = bucket(benchmark, error, salt)
        lines += change_lines(change)
    write_benchmark(benchmark, options.output)
    print(f"level {options.level}: {sum(replaced.values()):,} operators became proxies")
    for line in lines:
        print(line)


def _scale(options: argparse.Namespace) -> None:
    from phantora_py.launch.fold import mesh_sizes  # noqa: PLC0415
    from phantora_py.replay.container import read_benchmark, write_benchmark  # noqa: PLC0415
    from phantora_py.replay.mesh import Growth, Mesh, mesh_of_all  # noqa: PLC0415
    from phantora_py.replay.scale import scale  # noqa: PLC0415

    _require_torch()
    require_output(options.output, "-o", [options.file])
    change = mesh_sizes(options.change, "--set")
    benchmark = read_benchmark(options.file)
    if options.mesh is None:
        mesh = mesh_of_all(benchmark.head["ranks"], benchmark.head["groups"])
        print(f"all {mesh.ranks} ranks are taken to be data-parallel (dp); --mesh says otherwise")
    else:
        mesh = Mesh(mesh_sizes(options.mesh))
    growth = Growth(mesh, change)
    scaled, done = scale(benchmark, growth)
    write_benchmark(scaled, options.output)
    print(f"{done.ranks[0]} ranks ({mesh.text()}) became {done.ranks[1]} ({growth.new.text()})")
    print(
        f"  rank 0: {done.collectives:,} collectives among another number of ranks, "
        f"{done.shards:,} storages of another size"
    )


def _score(options: argparse.Namespace) -> None:
    from phantora_py.replay.score import score, score_lines  # noqa: PLC0415

    found = score(options.replayed, options.original)
    if options.json:
        print(json.dumps(found, indent=1))
    else:
        print("\n".join(score_lines(found)))


def _number(name: str, default: int) -> int:
    text = os.environ.get(name, str(default))
    if not text.isdecimal():
        raise UsageError(f"{name} is {text!r}, and is to be a number.")
    return int(text)


def _require_torch() -> None:
    try:
        import torch  # noqa: F401, PLC0415
    except ImportError as error:
        raise UsageError("replay needs PyTorch: install torch into this environment.") from error
