"""`phantora plan`: where embedding tables go, and what an iteration of them takes."""

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from phantora_py.advice.confirm import confirm
from phantora_py.advice.placement_page import make_placement_page
from phantora_py.plan.baselines import baselines
from phantora_py.plan.curves import measure
from phantora_py.plan.host_memory import HOST_KERNELS
from phantora_py.plan.model import Machine, PlanModel
from phantora_py.plan.parts import Choice
from phantora_py.plan.search import METHODS, search
from phantora_py.plan.sharding_plan import from_json, to_json
from phantora_py.plan.summary import summarise
from phantora_py.plan.tables import Table, read_tables
from phantora_py.sweep.engines import ENGINES, require
from phantora_py.text.tables import Column, print_table, table_console
from phantora_py.text.units import amount_text, duration_text, percent_text, size_text
from sim_server.cluster import Cluster, Layout, gpu_of_node, load_cluster, place
from sim_server.errors import UsageError
from sim_server.files.json_file import read_json
from sim_server.files.output_file import require_output, write_file

# As TorchRec's planner keeps free of what the tables do not take.
_RESERVED = 0.15
_MOST_TABLES_SHOWN = 40


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `phantora plan`."""
    parser.add_argument(
        "--tables",
        type=Path,
        required=True,
        metavar="FILE",
        help="JSON file of the tables and their lookups (docs/recommendation.md)",
    )
    parser.add_argument(
        "--batch", type=int, required=True, metavar="B", help="samples per rank and iteration"
    )
    cluster = parser.add_argument_group("the simulated cluster")
    cluster.add_argument("--cluster", default="h100", metavar="NAME|FILE", help="default: h100")
    cluster.add_argument("--ranks", type=int, required=True, metavar="N", help="number of ranks")
    cluster.add_argument("--gpus-per-node", type=int, metavar="N", help="ranks per node")
    cluster.add_argument(
        "--memory",
        type=float,
        metavar="GIB",
        help="memory of each rank for tables and their buffers; default: "
        f"{100 * (1 - _RESERVED):g}%% of what is free",
    )
    how = parser.add_argument_group("search")
    how.add_argument(
        "--search", choices=METHODS, default="anneal", help="the method; default: anneal"
    )
    how.add_argument(
        "--seed", type=int, default=0, metavar="N", help="seed of the search; default: 0"
    )
    how.add_argument(
        "--candidate",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="a known plan; the answer is at least as good; may be repeated",
    )
    how.add_argument(
        "--confirm", type=int, default=0, metavar="K", help="also run the best K plans as programs"
    )
    how.add_argument(
        "--engine",
        choices=list(ENGINES),
        default="local",
        help="where to run them, as for a sweep",
    )
    output = parser.add_argument_group("output")
    output.add_argument("-o", "--output", type=Path, metavar="FILE", help="the sharding plan")
    output.add_argument(
        "--module",
        default="embedding_bag_collection",
        metavar="PATH",
        help="name of the embedding module in the model; default: embedding_bag_collection",
    )
    output.add_argument("--html", type=Path, metavar="FILE", help="a page that draws the placement")
    output.add_argument("--json", action="store_true", help="print everything as JSON")


def run(options: argparse.Namespace) -> int:
    """Searches, writes and prints."""
    _check(options)
    tables = read_tables(options.tables)
    cluster = load_cluster(options.cluster)
    layout = place(cluster, options.ranks, None, options.gpus_per_node)
    if options.confirm:
        _require_gpu_memory(tables)
    model = PlanModel(tables, options.batch, _machine(options, cluster, layout))
    known = baselines(model, options.seed)
    known |= _candidates(options, model)
    found = search(model, options.search, tuple(known.values()), options.seed)
    if not found:
        raise UsageError(
            f"the {len(tables)} tables of {options.tables} fit no placement on {layout.ranks} "
            f"ranks with {size_text(model.limit_bytes)} each; more ranks, or a smaller batch"
        )
    summary = summarise(model, found, known)
    summary |= {"ranks_in_all": layout.ranks, "gpus_per_node": layout.gpus_per_node}
    summary |= {"cluster": cluster.name, "batch": options.batch}
    plans = [_plan(options, model, layout, choice) for choice in found[: max(1, options.confirm)]]
    if options.output is not None:
        content = json.dumps(plans[0], indent=1) + "\n"
        write_file(options.output, content.encode(), "--output")
    if options.confirm:
        summary["confirmed"] = confirm(
            plans, options.tables, options.batch, _run_options(options, layout), options.engine
        )
    if options.html is not None:
        page = make_placement_page(summary, options.tables.name)
        write_file(options.html, page.encode(), "--html")
    if options.json:
        print(json.dumps(summary, indent=1))
    else:
        _print(options, summary)
    return 0


def _check(options: argparse.Namespace) -> None:
    for name in ("batch", "ranks"):
        if getattr(options, name) < 1:
            raise UsageError(f"--{name} must be at least 1, not {getattr(options, name)}")
    if options.confirm < 0:
        raise UsageError(f"--confirm must not be below 0, as {options.confirm} is")
    if options.confirm:
        require(options.engine)
    if options.seed < 0:
        raise UsageError(f"--seed must not be below 0, as {options.seed} is")
    if options.memory is not None and not 0 < options.memory < 1e6:
        raise UsageError(f"--memory must be above 0 GiB, not {options.memory:g}")
    if options.output is not None:
        require_output(options.output, "--output", [options.tables])
    if options.html is not None:
        require_output(options.html, "--html", [options.tables])
        if options.output is not None and options.html.resolve() == options.output.resolve():
            raise UsageError(f"--html and --output are both {options.html}")


def _require_gpu_memory(tables: Sequence[Table]) -> None:
    """Programs of `--confirm` have all tables there."""
    for table in tables:
        if set(table.compute_kernels) & set(HOST_KERNELS):
            raise UsageError(
                f"--confirm: table {table.name} may be in host memory (constraints.compute_kernels "
                f"has {' or '.join(HOST_KERNELS)}), which no run has; plan without --confirm"
            )


def _machine(options: argparse.Namespace, cluster: Cluster, layout: Layout) -> Machine:
    if len({node.gpu for node in cluster.node_types(layout.nodes)}) > 1:
        raise UsageError(f"{cluster.name} has nodes with several GPUs; tables need one model")
    gpu = gpu_of_node(cluster.node(0))
    free = gpu.memory_bytes - gpu.context_bytes - gpu.nccl_bytes_per_communicator
    limit = free * (1 - _RESERVED) if options.memory is None else options.memory * 2**30
    return Machine(layout, gpu, measure(cluster, layout), limit)


def _candidates(options: argparse.Namespace, model: PlanModel) -> dict[str, Choice]:
    """The user's plans. Raises: UsageError if one is none of the placements that there are."""
    found = {}
    for path in options.candidate:
        content = read_json(path, "--candidate")
        choice = []
        placed = from_json(content, model.tables, model.layout.gpus_per_node, f"--candidate {path}")
        for number, option in enumerate(placed):
            if option not in model.options[number]:
                raise UsageError(
                    f"--candidate {path}: table {model.tables[number].name} cannot be "
                    f"{option.text} on {model.ranks} ranks with these constraints and memory"
                )
            choice.append(model.options[number].index(option))
        found[str(path)] = tuple(choice)
    return found


def _plan(
    options: argparse.Namespace, model: PlanModel, layout: Layout, choice: Choice
) -> dict[str, Any]:
    placed = [model.options[number][option] for number, option in enumerate(choice)]
    return to_json(model.tables, placed, layout.gpus_per_node, options.module)


def _run_options(options: argparse.Namespace, layout: Layout) -> dict[str, Any]:
    return {
        "cluster": options.cluster,
        "ranks": layout.ranks,
        "gpus-per-node": layout.gpus_per_node,
    }


def _print(options: argparse.Namespace, summary: Mapping[str, Any]) -> None:
    console = table_console()
    low, high = map(duration_text, summary["interval_ns"])
    console.print(
        f"embeddings of an iteration: virtual {duration_text(summary['time_ns'])} ({low} to {high} "
        f"with 90 % confidence; {summary['tier']})"
    )
    phases = summary["phases_ns"].items()
    console.print("  " + "   ".join(f"{name} {duration_text(time)}" for name, time in phases))
    uneven = summary["imbalance"]
    console.print(
        f"  communication {percent_text(summary['communication_share'])}, none of it hidden   "
        f"slowest rank over the mean: forward {uneven['forward']:.2f}, backward "
        f"{uneven['backward']:.2f}, lookups {uneven['lookups']:.2f}"
    )
    _print_ranks(console, summary)
    _print_tables(console, summary)
    baseline_times = sorted((time, name) for name, time in summary["baselines_ns"].items())
    for time, name in baseline_times:
        fits = time < float("inf")
        ratio = f"{time / summary['time_ns']:.2f} times as long" if fits else "out of memory"
        console.print(f"  {name}: {duration_text(time) if fits else '-'}, {ratio}")
    for number, one in enumerate(summary.get("confirmed", ()), 1):
        console.print(
            f"  as a program, plan {number}: virtual iteration {duration_text(one['median_ns'])}"
        )
    for written in filter(None, (options.output, options.html)):
        console.print(f"Wrote {written}")
    if options.output is None:
        console.print("Next: -o FILE writes the plan for TorchRec (docs/recommendation.md)")


def _print_ranks(console: Console, summary: Mapping[str, Any]) -> None:
    columns = [Column(title, justify_right=True) for title in ("rank", "lookups")]
    columns += [Column(t, justify_right=True) for t in ("forward", "backward", "sent", "memory")]
    columns.append(Column("tables", is_name=True, most=60))
    rows = [
        [
            str(one["rank"]),
            amount_text(one["lookups"]),
            duration_text(one["forward_ns"]),
            duration_text(one["backward_ns"]),
            size_text(one["sent_bytes"]),
            size_text(one["memory_bytes"]),
            " ".join(one["tables"]),
        ]
        for one in summary["ranks"]
    ]
    print_table(console, columns, rows)


def _print_tables(console: Console, summary: Mapping[str, Any]) -> None:
    titles = ("lookups", "hit rate", "bytes", "forward", "backward", "tier")
    columns = [Column("table", is_name=True), Column("placement", is_name=True)]
    columns += [Column(title, justify_right=True) for title in titles]
    has_host = any(one["host_memory_bytes"] for one in summary["tables"])
    if has_host:
        columns += [
            Column(title, justify_right=True) for title in ("on the host", "cached", "link")
        ]
    tables = sorted(summary["tables"], key=lambda one: -one["forward_ns"] - one["backward_ns"])
    rows = [
        [
            one["table"],
            _placement_text(one),
            amount_text(one["lookups"]),
            percent_text(one["hit_rate"]),
            size_text(one["forward_bytes"] + one["backward_bytes"]),
            duration_text(one["forward_ns"]),
            duration_text(one["backward_ns"]),
            one["tier"],
            *(_host_texts(one) if has_host else ()),
        ]
        for one in tables[:_MOST_TABLES_SHOWN]
    ]
    print_table(console, columns, rows)
    if len(tables) > _MOST_TABLES_SHOWN:
        console.print(f"  and {len(tables) - _MOST_TABLES_SHOWN} more; --json has all")


def _placement_text(table: Mapping[str, Any]) -> str:
    text = f"{table['sharding_type']} {','.join(map(str, table['ranks']))}"
    return f"{text} {table['compute_kernel']}" if table["host_memory_bytes"] else text


def _host_texts(table: Mapping[str, Any]) -> list[str]:
    """Memory there, lookups that the cache in GPU memory has, and bytes over the link."""
    if not table["host_memory_bytes"]:
        return ["-", "-", "-"]
    rate = table["cache_hit_rate"]
    cached = "-" if rate is None else percent_text(rate)
    return [size_text(table["host_memory_bytes"]), cached, size_text(table["link_bytes"])]
