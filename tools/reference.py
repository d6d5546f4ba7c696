"""Makes docs/reference.md: commands, configuration and JSON as the code has them.

python tools/reference.py > docs/reference.md
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import importlib
import inspect
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args, get_type_hints

ROOT = Path(__file__).resolve().parents[1]
# Where a data file can be made without a run.
sys.path.append(str(ROOT / "tests" / "report"))

from made_runs import COMMUNICATION, KERNEL, make_run, run_json  # noqa: E402

from phantora_py.cli.commands import VERBS, Command, Parser, sentence  # noqa: E402
from phantora_py.compare.comparison import compare, read_configuration  # noqa: E402
from phantora_py.compare.quantities import parse_prices, parse_work  # noqa: E402
from phantora_py.data import RunData  # noqa: E402
from phantora_py.report.summary import summarise  # noqa: E402
from phantora_py.sweep.plan import RUN_OPTIONS  # noqa: E402
from phantora_py.tables import TABLES  # noqa: E402
from sim_server.cluster import load_cluster  # noqa: E402
from sim_server.cluster.description import Cluster  # noqa: E402
from sim_server.errors import PhantoraError  # noqa: E402
from sim_server.records import MarkerKind  # noqa: E402

HEAD = """# Reference

Made from the code by `python tools/reference.py > docs/reference.md`; a test compares. What things
mean is told where they belong: [running a program](running.md), [comparing](compare.md),
[JSON](json.md), [network](network.md).
"""


def main() -> int:
    """Prints the page."""
    print("\n".join(page()))
    return 0


def page() -> Iterator[str]:
    """The page, line by line."""
    yield HEAD
    yield "## Commands\n"
    for verb, (module, purpose) in VERBS.items():
        yield from command_lines(verb, importlib.import_module(module), purpose)
    yield "## Exit codes\n"
    yield from exit_codes()
    yield "## A cluster's TOML file\n"
    yield (
        "`base` names a built-in cluster, of which a file then says only what differs. The values "
        "are those of `h100`; rates and times are written with a unit, as `400 Gb/s`, `600 ns`.\n"
    )
    yield from table(("key", "h100", "what"), cluster_rows())
    yield "\n## A sweep's TOML file\n"
    yield (
        "Tables `fixed`, `grid` (lists) and `configuration` (any number). In each, `env` has "
        f"variables, `run` may have {', '.join(f'`{name}`' for name in RUN_OPTIONS)}, and every "
        "other key is the value of a placeholder.\n"
    )
    yield "## Keys of JSON\n"
    with tempfile.TemporaryDirectory() as folder:
        runs = [small_run(Path(folder) / f"{steps}.phr", steps) for steps in (3, 4)]
        yield "`phantora report --json` and `phantora run --json`:\n"
        yield from table(("key", "type"), keys_of(summarise(runs[0])))
        works = parse_work(["8 samples"], 2)
        read = [
            read_configuration(run.path, run.path.stem, work)
            for run, work in zip(runs, works, strict=True)
        ]
        yield "\n`phantora compare --json`:\n"
        yield from table(("key", "type"), keys_of(compare(read, parse_prices(["2.49"]))))
        yield "\n## Tables\n"
        yield "`phantora_py.open(FILE).table(NAME)`, see [tables](tables.md):\n"
        columns = {name: make(runs[0]) for name, make in TABLES.items()}
        rows = [(f"`{name}`", ", ".join(f"`{key}`" for key in columns[name])) for name in columns]
        yield from table(("table", "columns"), rows)


def command_lines(verb: str, command: Command, purpose: str) -> Iterator[str]:
    """A verb with its arguments."""
    parser = Parser(prog=f"phantora {verb}")
    command.add_arguments(parser)
    yield f"### phantora {verb}\n"
    yield f"{sentence(purpose)}\n"
    yield from argument_table(parser)
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, one in action.choices.items():
                yield f"#### phantora {verb} {name}\n"
                yield f"{sentence(one.description)}\n"
                yield from argument_table(one)


def argument_table(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Nothing if there are none."""
    rows = list(argument_rows(parser))
    if rows:
        yield from table(("argument", "what"), rows)
        yield ""


def argument_rows(parser: argparse.ArgumentParser) -> Iterator[tuple[str, str]]:
    """Arguments of a parser."""
    for action in parser._actions:  # there is no public way to list them
        if not isinstance(action, argparse._HelpAction) and action.help != argparse.SUPPRESS:
            yield f"`{argument_text(action)}`", help_text(action, parser.prog)


def argument_text(action: argparse.Action) -> str:
    """As it is typed."""
    value = action.metavar or (action.choices and "|".join(map(str, action.choices)))
    value = str(value or action.dest.upper())
    if not action.option_strings:
        return str(action.metavar or action.dest.upper())
    names = ", ".join(action.option_strings)
    return names if action.nargs == 0 else f"{names} {value}"


def help_text(action: argparse.Action, program: str) -> str:
    """What `--help` says."""
    values = {**vars(action), "prog": program}
    return (action.help or "") % values


def exit_codes() -> Iterator[str]:
    """What each means, from the errors."""
    meanings: dict[int, list[str]] = {0: ["It finished."]}
    for kind in sorted(PhantoraError.__subclasses__(), key=lambda one: one.__name__):
        first_line = (inspect.getdoc(kind) or "").split("\n")[0]
        meanings.setdefault(kind.exit_code, []).append(first_line)
    rows = [(str(code), " Or: ".join(texts)) for code, texts in sorted(meanings.items())]
    yield from table(("code", "when"), rows)
    yield ""


# Fields whose table in a file has another name.
_TABLES = {"gpu_changes": "gpu"}


def cluster_rows() -> Iterator[tuple[str, str, str]]:
    """Every key of a cluster with its documentation."""
    values = load_cluster("h100").to_dict()
    yield from record_rows(Cluster, values, "")


def record_rows(
    record: type, values: Mapping[str, Any], prefix: str
) -> Iterator[tuple[str, str, str]]:
    """Keys of a record and of those within."""
    hints = get_type_hints(record, include_extras=True)
    documented = {
        name: text
        for one in reversed(record.__mro__[:-1])
        for name, text in docstrings(one).items()
    }
    for field in dataclasses.fields(record):
        hint, value = hints[field.name], values[field.name]
        if dataclasses.is_dataclass(hint):
            assert isinstance(hint, type)
            table = _TABLES.get(field.name, field.name)
            yield from record_rows(hint, value, f"{prefix}{table}.")
        elif dataclasses.is_dataclass(listed := next(iter(get_args(hint)), None)):
            assert isinstance(listed, type)
            yield f"`[[{prefix}{field.name}]]`", "", documented[field.name]
            yield from list_rows(listed, f"{prefix}{field.name}.")
        else:
            (setting,) = hint.__metadata__
            shown = "" if value is None else f"{value} {unit_of(field.name)}".strip()
            yield f"`{prefix}{setting.key}`", shown, documented[field.name]


def list_rows(record: type, prefix: str) -> Iterator[tuple[str, str, str]]:
    """Keys of a record in a list: its own, as those that it inherits are the cluster's."""
    hints = get_type_hints(record, include_extras=True)
    for name, text in docstrings(record).items():
        (setting,) = hints[name].__metadata__
        yield f"`{prefix}{setting.key}`", "", text


def unit_of(name: str) -> str:
    """Of a field, by the end of its name."""
    return "bytes/s" if name.endswith("bytes_per_s") else "ns" if name.endswith("_ns") else ""


def docstrings(record: type) -> dict[str, str]:
    """The texts beneath the fields of a record."""
    (body,) = ast.parse(inspect.getsource(record)).body
    assert isinstance(body, ast.ClassDef)
    found = {}
    for field, text in zip(body.body, body.body[1:], strict=False):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(text, ast.Expr)
        ):
            found[field.target.id] = str(ast.literal_eval(text.value))
    return found


def small_run(path: Path, steps: int) -> RunData:
    """A data file with something of everything that has keys of its own."""
    spans = [(KERNEL, 10 * step, 10 * step, 10 * step + 5 + steps) for step in range(steps)]
    spans.append((COMMUNICATION, 0, 1, 2))
    markers = [(0, 10 * step + 6, MarkerKind.ITERATION, "i") for step in range(steps)]
    operation = {
        **{"kind": "all_reduce", "comm": 1, "bytes": 64, "count": 16, "dtype": 7, "members": [0]},
        **{"arrivals_ns": [1], "moves_ns": 1, "ends_ns": [2], "site": "train.py:7 main"},
    }
    weighed = {"pss_bytes": {"0": 1}, "total_bytes": 2, "limit_bytes": None}
    run = run_json(1, host_memory=weighed, cluster=load_cluster("h100").to_dict())
    return make_run(path, [spans], markers, operations=[operation], run=run | {"environment": {}})


def keys_of(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Paths and types of what JSON would have; of lists the first entry."""
    if isinstance(value, Mapping):
        for key, below in value.items():
            yield from keys_of(below, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list) and value and isinstance(value[0], Mapping):
        yield from keys_of(value[0], f"{path}[]")
    else:
        yield f"`{path}`", type_text(value)


def type_text(value: Any) -> str:
    """A value's type in JSON."""
    if isinstance(value, list | tuple):
        return f"list of {type_text(value[0])}" if value else "list"
    kinds = {type(None): "null, or what docs/json.md says", bool: "true or false", str: "text"}
    return kinds.get(type(json.loads(json.dumps(value))), "number")


def table(head: tuple[str, ...], rows: Any) -> Iterator[str]:
    """A table of Markdown."""
    yield f"| {' | '.join(head)} |"
    yield "|" + " --- |" * len(head)
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"


if __name__ == "__main__":
    sys.exit(main())
