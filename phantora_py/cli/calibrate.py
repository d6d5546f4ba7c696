"""`phantora calibrate`: fits a cluster's free constants to logs of nccl-tests."""

import argparse
import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from datetime import date
from pathlib import Path

import numpy as np

from phantora_py import __version__
from phantora_py.calibrate.constants import ADVICE, uncertainties, undetermined
from phantora_py.calibrate.least_squares import Fit, Vector, fit
from phantora_py.calibrate.measurements import Measurements, all_residuals, count_rows
from sim_server.cluster import Calibration, Cluster, builtin_names, load_cluster
from sim_server.errors import UsageError
from sim_server.files.output_file import require_output, write_file

# Half as fast to twice as fast as the model is still the same cluster; beyond a factor of ten the
# description is wrong, not its constants: assumed.
_LARGEST_FACTOR = 10.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `phantora calibrate`."""
    parser.add_argument("logs", nargs="+", type=Path, metavar="FILE", help="logs of nccl-tests")
    parser.add_argument(
        "--cluster",
        default="h100",
        metavar="NAME|FILE",
        help="the cluster whose constants are fitted; default: h100",
    )
    parser.add_argument(
        "--operation",
        metavar="NAME",
        help="the operation of logs that do not name theirs, e.g. all_reduce",
    )
    parser.add_argument(
        "--constants",
        metavar="NAME,NAME",
        default=",".join(ADVICE),
        help=f"the constants to fit; default: {','.join(ADVICE)}",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        required=True,
        metavar="FILE",
        help="the cluster's TOML file to write",
    )
    parser.add_argument(
        "--json", action="store_true", help="print what was fitted as JSON (docs/json.md)"
    )


def run(options: argparse.Namespace) -> int:
    """Fits, writes the file, and says what came of it."""
    names = _names(options.constants)
    require_output(options.output, "-o", options.logs)
    cluster = load_cluster(options.cluster)
    logs = [Measurements(path, cluster, options.operation) for path in options.logs]
    result = _fit(names, cluster, logs)
    text = "\n".join(_file(options, names, cluster, logs, result)) + "\n"
    write_file(options.output, text.encode(), "-o")
    before = _median_error(all_residuals(logs, cluster.calibration))
    after = _median_error(result.residuals)
    if options.json:
        found = {
            "output": str(options.output),
            "constants": _constants(names, result),
            "times": count_rows(logs),
            "median_error": {"before": before, "after": after},
        }
        print(json.dumps(found, indent=1))
        return 0
    for line in _constant_lines(names, result):
        print(line)
    print(f"median error of {count_rows(logs)} times: {before:.1%} before, {after:.1%} now")
    print(f"Wrote {options.output}")
    print(f"Next: phantora bench all_reduce --cluster {options.output}")
    return 0


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in ADVICE:
            raise UsageError(
                f"--constants: there is no constant '{name}'; there are {', '.join(ADVICE)}"
            )
    return list(dict.fromkeys(names))


def _fit(names: Sequence[str], cluster: Cluster, logs: Sequence[Measurements]) -> Fit:
    start = np.array([getattr(cluster.calibration, name) for name in names])

    def residuals(values: Vector) -> Vector:
        return all_residuals(logs, _calibration(names, cluster, values))

    if count_rows(logs) == 0:
        raise UsageError("the logs have no times of operations that move bytes between ranks")
    result = fit(residuals, start, start / _LARGEST_FACTOR, start * _LARGEST_FACTOR)
    for name, value, first in zip(names, result.constants, start, strict=True):
        if not 1.01 / _LARGEST_FACTOR < value / first < _LARGEST_FACTOR / 1.01:
            raise UsageError(
                f"{name} would have to change by more than a factor of {_LARGEST_FACTOR:g}: the "
                f"logs are not of a cluster like {cluster.name}; start from one that is described "
                "as yours is (links, NICs, transport), with --cluster"
            )
    if left_open := undetermined(names, result):
        determined = [name for name in names if name not in left_open]
        wanted = "; ".join(f"{name}: measure {ADVICE[name]}" for name in left_open)
        otherwise = (
            f", or fit the others only, with --constants {','.join(determined)}"
            if determined
            else ""
        )
        raise UsageError(f"the logs do not determine {wanted}{otherwise}")
    return result


def _calibration(names: Sequence[str], cluster: Cluster, values: Vector) -> Calibration:
    found = {name: float(value) for name, value in zip(names, values, strict=True)}
    return replace(cluster.calibration, **found)


def _median_error(residuals: Vector) -> float:
    return float(np.median(np.abs(np.expm1(residuals))))


def _constant_lines(names: Sequence[str], result: Fit) -> Iterator[str]:
    for name, one in _constants(names, result).items():
        yield f"{name} = {one['value']:.4g} # +- {one['uncertainty']:.1%}"


def _constants(names: Sequence[str], result: Fit) -> dict[str, dict[str, float]]:
    """The uncertainty is a share of the value."""
    found = zip(names, result.constants, uncertainties(result), strict=True)
    return {
        name: {"value": float(value), "uncertainty": float(uncertainty)}
        for name, value, uncertainty in found
    }


def _file(
    options: argparse.Namespace,
    names: Sequence[str],
    cluster: Cluster,
    logs: Sequence[Measurements],
    result: Fit,
) -> Iterator[str]:
    """The new file: what it starts from, and the constants with where they come from."""
    yield f"# Written by phantora calibrate {__version__} on {date.today()}, from"
    for log in logs:
        digest = hashlib.sha256(log.path.read_bytes()).hexdigest()[:12]
        yield (
            f"#   {log.path.name} (sha256 {digest}): {len(log.rows)} times of "
            f"{log.operation.name} on {log.layout.nodes} x {log.layout.gpus_per_node} GPUs"
        )
    yield f"# Median error of these times: {_median_error(result.residuals):.1%}."
    base = options.cluster
    if base not in builtin_names():
        base = os.path.relpath(base, options.output.resolve().parent)
    yield f'base = "{base}"'
    yield ""
    yield "[calibration]"
    yield from _constant_lines(names, result)
    for name, value in asdict(cluster.calibration).items():
        if name not in names and value != 1.0:
            yield f"{name} = {value:.4g} # as in {base}"
