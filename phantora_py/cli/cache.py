"""`phantora cache WHAT FILE ...`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from rich.text import Text

from phantora_py.cache.exchange import read_text, write_text
from phantora_py.cli.commands import Parser
from phantora_py.text.tables import Column, print_table, table_console
from phantora_py.text.units import duration_text, percent_text
from phantora_py.text.wrapping import print_lines
from sim_server.errors import UsageError
from sim_server.files.output_file import require_output
from sim_server.timing_cache import (
    Damaged,
    Entry,
    Environment,
    Failure,
    Row,
    TimingCache,
    put_away,
)
from sim_server.timing_cache.entry import signature_key

_LS_COLUMNS = (
    Column("GPU", is_name=True),
    Column("driver"),
    Column("CUDA"),
    Column("libraries", is_name=True),
    Column("entries"),
    Column("samples", left_out=2),
    Column("latest", left_out=1),
)
_ENTRY_COLUMNS = (
    Column("signature", is_name=True),
    Column("GPU", is_name=True, left_out=1),
    Column("CUDA", left_out=2),
    Column("median"),
    Column("spread"),
    Column("cold", left_out=4),
    Column("n", left_out=3),
    Column("clock", left_out=5),
    Column("date", left_out=6),
    Column("origin", is_name=True, left_out=7),
)
_FAILURE_COLUMNS = (
    Column("not measured again", is_name=True),
    Column("GPU", is_name=True, left_out=1),
    Column("driver", left_out=3),
    Column("CUDA", left_out=2),
    Column("why", is_name=True),
    Column("date", left_out=4),
    Column("origin", is_name=True, left_out=5),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    whats = parser.add_subparsers(metavar="WHAT", required=True, parser_class=Parser)

    def add(name: str, carry_out: Callable[[argparse.Namespace], None], help_text: str) -> None:
        what = whats.add_parser(name, help=help_text, description=help_text)
        what.add_argument("file", type=Path, metavar="FILE", help="the cache")
        what.add_argument(
            "--json", action="store_true", help="print the result as JSON (docs/json.md)"
        )
        what.set_defaults(carry_out=carry_out)
        made[name] = what

    made: dict[str, argparse.ArgumentParser] = {}
    add("ls", _ls, "list where its measurements were made, and how many there are")
    add("show", _show, "list its entries (samples, median, spread, clock, date, origin), failures")
    add("export", _export, "write it as text, one measurement or failure per line")
    add("import", _import, "add measurements from files that `export` wrote; make the cache if new")
    add("merge", _merge, "add the measurements of other caches")
    add("verify", _verify, "check the whole file; a damaged one is renamed")
    add("prune", _prune, "remove measurements and failures that match all of the options")
    made["show"].add_argument(
        "pattern", nargs="?", default="*", help="only these signatures, e.g. '*bf16*'; default: all"
    )
    made["export"].add_argument(
        "-o", "--output", type=Path, required=True, metavar="OUT", help="the file to write"
    )
    for name, what in (("import", "files of `export`"), ("merge", "other caches")):
        made[name].add_argument("sources", type=Path, nargs="+", metavar="FROM", help=what)
    prune = made["prune"]
    prune.add_argument("--gpu", metavar="PATTERN", help="name of the GPU, e.g. '*H100*'")
    prune.add_argument("--driver", metavar="PATTERN", help="version of the driver")
    prune.add_argument("--cuda", metavar="PATTERN", help="version of CUDA")
    prune.add_argument("--origin", metavar="PATTERN", help="where it came from, as `show` lists it")
    prune.add_argument("--before", metavar="DATE", help="measured before this day, e.g. 2026-01-31")
    prune.add_argument(
        "--failures", action="store_true", help="only failures: they are then tried again"
    )


def run(options: argparse.Namespace) -> int:
    """Carries it out. Raises: UsageError also for a damaged cache, after setting it aside."""
    try:
        options.carry_out(options)
    except Damaged as error:
        raise put_away(options.file, error) from error
    return 0


def _ls(options: argparse.Namespace) -> None:
    with TimingCache(options.file) as cache:
        entries = cache.entries()
        failures = _standing(entries, cache.failures())
    failed = {(where, signature_key(one.signature)) for where, one in failures}
    if options.json:
        environments = [
            asdict(where)
            | {
                "entries": len(some),
                "samples": sum(len(one.warm_ns) for one in some),
                "latest": max(one.date for one in some),
            }
            for where, some in _by_environment(entries).items()
        ]
        _print_json({"environments": environments, "failures": len(failed)})
        return
    rows = [
        (
            *(environment.gpu, environment.driver, environment.cuda, environment.libraries),
            f"{len(some):,}",
            f"{sum(len(one.warm_ns) for one in some):,}",
            max(one.date for one in some),
        )
        for environment, some in _by_environment(entries).items()
    ]
    print_table(table_console(), _LS_COLUMNS, rows)
    if failed:
        told = (
            f"{len(failed):,} signatures are not measured again: `show` tells why, "
            "`prune --failures` has them tried."
        )
        print_lines([Text(told)])


def _by_environment(entries: Iterable[Entry]) -> dict[Environment, list[Entry]]:
    found: dict[Environment, list[Entry]] = {}
    for entry in entries:
        found.setdefault(entry.environment, []).append(entry)
    return found


def _show(options: argparse.Namespace) -> None:
    with TimingCache(options.file) as cache:
        entries = cache.entries()
        failures = _standing(entries, cache.failures())
    entries = [one for one in entries if _is_wanted(one.signature, options)]
    failures = [(where, one) for where, one in failures if _is_wanted(one.signature, options)]
    if options.json:
        shown = {
            "entries": [_entry_json(one) for one in entries],
            "failures": [{"environment": asdict(where)} | asdict(one) for where, one in failures],
        }
        _print_json(shown)
        return
    _print_entries(entries)
    if failures:
        _print_failures(failures)


def _entry_json(entry: Entry) -> dict[str, Any]:
    return {
        "signature": entry.signature,
        "environment": asdict(entry.environment),
        "median_ns": entry.median_ns,
        "spread": entry.spread,
        "warm_ns": entry.warm_ns,
        "cold_ns": entry.cold_ns,
        "sm_khz": entry.measurements[-1].sm_khz,
        "date": entry.date,
        "origins": _origins(entry),
    }


def _origins(entry: Entry) -> list[str]:
    return list(dict.fromkeys(one.origin for one in entry.measurements))


def _print_entries(entries: Iterable[Entry]) -> None:
    print_table(table_console(), _ENTRY_COLUMNS, [_entry_row(one) for one in entries])


def _entry_row(entry: Entry) -> tuple[str, ...]:
    cold = entry.cold_ns
    clock_khz = entry.measurements[-1].sm_khz
    return (
        signature_key(entry.signature),
        entry.environment.gpu,
        entry.environment.cuda,
        duration_text(entry.median_ns),
        percent_text(entry.spread),
        duration_text(cold[len(cold) // 2]) if cold else "-",
        str(len(entry.warm_ns)),
        f"{clock_khz / 1e6:.2f} GHz" if clock_khz else "-",
        entry.date[:10],
        ", ".join(_origins(entry)),
    )


def _print_failures(failures: Iterable[tuple[Environment, Failure]]) -> None:
    rows = [
        (
            *(signature_key(failure.signature), environment.gpu),
            *(environment.driver, environment.cuda),
            *(failure.failure, failure.date[:10], failure.origin),
        )
        for environment, failure in failures
    ]
    print_table(table_console(), _FAILURE_COLUMNS, rows)


def _standing(
    entries: Iterable[Entry], failures: Iterable[tuple[Environment, Failure]]
) -> list[tuple[Environment, Failure]]:
    """Those of signatures that were not measured all the same, with more time."""
    measured = {(entry.environment, signature_key(entry.signature)) for entry in entries}
    return [
        (where, one)
        for where, one in failures
        if (where, signature_key(one.signature)) not in measured
    ]


def _is_wanted(signature: Mapping[str, Any], options: argparse.Namespace) -> bool:
    return fnmatchcase(signature_key(signature).lower(), options.pattern.lower())


def _export(options: argparse.Namespace) -> None:
    require_output(options.output, "-o", [options.file])
    with TimingCache(options.file) as cache:
        rows = list(cache.rows())
    write_text(options.output, rows)
    if options.json:
        _print_json({"output": str(options.output), **_counts(rows)})
    else:
        print(f"Wrote {options.output} ({_counted(rows)})")


def _import(options: argparse.Namespace) -> None:
    found = [row for source in options.sources for row in read_text(source)]
    with TimingCache(options.file, write=True) as cache:
        _tell_added(options, cache.add(found), found)


def _merge(options: argparse.Namespace) -> None:
    found: list[Row] = []
    for source in options.sources:
        try:
            with TimingCache(source) as cache:
                found += cache.rows()
        except Damaged as error:
            raise UsageError(f"{source} is damaged: {error}. Nothing was merged.") from error
    with TimingCache(options.file, write=True) as cache:
        _tell_added(options, cache.add(found), found)


def _tell_added(options: argparse.Namespace, added: Sequence[Row], given: Sequence[Row]) -> None:
    new, all_given = _counts(added), _counts(given)
    if options.json:
        _print_json({"file": str(options.file), "given": all_given, "new": new})
        return
    told = (f"{new[kind]:,} of {all_given[kind]:,} {kind}" for kind in _told_kinds(all_given))
    print(f"{' and '.join(told)} are new to {options.file}")


def _counted(rows: Sequence[Row]) -> str:
    counts = _counts(rows)
    return " and ".join(f"{counts[kind]:,} {kind}" for kind in _told_kinds(counts))


def _counts(rows: Sequence[Row]) -> dict[str, int]:
    failures = sum(isinstance(one, Failure) for _, one in rows)
    return {"measurements": len(rows) - failures, "failures": failures}


def _told_kinds(counts: Mapping[str, int]) -> list[str]:
    """Failures only if there are any."""
    return ["measurements", "failures"] if counts["failures"] else ["measurements"]


def _verify(options: argparse.Namespace) -> None:
    with TimingCache(options.file) as cache:
        rows = list(cache.rows())
    if options.json:
        _print_json({"file": str(options.file), **_counts(rows)})
    else:
        print(f"{options.file} is whole: {_counted(rows)}")


def _prune(options: argparse.Namespace) -> None:
    wanted = ("gpu", "driver", "cuda", "origin", "before")
    if not options.failures and all(getattr(options, name) is None for name in wanted):
        raise UsageError(
            "prune needs to know what: give --gpu, --driver, --cuda, --origin, --before or "
            "--failures."
        )
    with TimingCache(options.file, write=options.file.exists()) as cache:
        removed = cache.remove(list(_matching(cache, options)))
    if options.json:
        _print_json({"file": str(options.file), "removed": _counts(removed)})
    else:
        print(f"{_counted(removed)} were removed from {options.file}")


def _matching(cache: TimingCache, options: argparse.Namespace) -> Iterator[Row]:
    for environment, one in cache.rows():
        texts = {
            "gpu": environment.gpu,
            "driver": environment.driver,
            "cuda": environment.cuda,
            "origin": one.origin,
        }
        patterns = {name: getattr(options, name) for name in texts}
        if options.before is not None and one.date >= options.before:
            continue
        if options.failures and not isinstance(one, Failure):
            continue
        if all(
            pattern is None or fnmatchcase(texts[name].lower(), pattern.lower())
            for name, pattern in patterns.items()
        ):
            yield environment, one


def _print_json(found: Mapping[str, Any]) -> None:
    print(json.dumps(found, indent=1))
