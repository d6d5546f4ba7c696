"""Whole training runs against what was published of them.

    python benchmarks/accuracy                          four published runs that are built in
    python benchmarks/accuracy FOLDER [--write]         these and a sample of FOLDER's

FOLDER has `training_llmfoundry_mpt.csv` and `training_nanotron.csv`; they are not part of the
repository. The programs are our own, written after those that were measured (`train_mpt.py`,
`train_nanotron.py`); each is run as it was published, and nothing is tuned to a run. `--engine`
says where, as for `phantora sweep`. `--write` puts the tables into docs/accuracy-training.md.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from page import PAGE, lines, write
from predict import Predictions
from published import BUILT_IN, Run, read_runs, sample
from spread import Outcome

from phantora_py.sweep.engines import ENGINES
from phantora_py.sweep.results import Results


def main() -> int:
    """Print or write the tables. Exit code 1 if a simulation failed, 2 if FOLDER is not one."""
    assert __doc__ is not None
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, nargs="?", help="of the measurements")
    parser.add_argument("--gpus", type=int, default=32, help="at most; default: 32")
    parser.add_argument(
        "--every",
        type=int,
        metavar="N",
        help="take every so many of a family; default: 1, 4 or 13, as long as its runs take",
    )
    parser.add_argument("--only", default="", help="families whose name has this")
    parser.add_argument(
        "--keep", type=Path, metavar="FILE", help="of predictions: made once, then read from here"
    )
    parser.add_argument(
        "--no-new", action="store_true", help="leave out runs that FILE has no prediction of"
    )
    parser.add_argument(
        "--engine", choices=list(ENGINES), default="local", help="where to run, as for a sweep"
    )
    parser.add_argument("--jobs", type=int, metavar="N", help="at most so many at a time")
    parser.add_argument(
        "--output",
        type=Path,
        metavar="DIR",
        help="of data files and logs, which hosts of an engine share; default: temporary",
    )
    parser.add_argument("--write", action="store_true", help=f"into docs/{PAGE.name}")
    options = parser.parse_args()
    if options.folder is not None and not options.folder.is_dir():
        print(f"{options.folder} is no folder", file=sys.stderr)
        return 2
    runs = [run for run in _runs(options) if options.only in run.family]
    predictions = Predictions(options.keep)
    if not options.no_new:
        with ExitStack() as stack:
            temporary = options.output or stack.enter_context(tempfile.TemporaryDirectory())
            results = Results(Path(temporary))
            predictions.simulate(runs, results, ENGINES[options.engine](results, options.jobs))
    found = [(run, predictions.of(run)) for run in runs]
    outcomes = [Outcome(run, one) for run, one in found if one is not None]
    left_out = [run for run, one in found if one is None]
    if outcomes:
        tables = lines(outcomes, left_out)
        print("\n".join(tables))
        if options.write:
            write(tables)
    return 1 if left_out and not options.no_new else 0


def _runs(options: argparse.Namespace) -> list[Run]:
    """Those that are built in, and the sample of the folder."""
    runs = list(BUILT_IN)
    if options.folder is not None:
        chosen = sample(list(read_runs(options.folder)), options.gpus, options.every)
        known = {run.key for run in runs}
        runs += [run for run in chosen if run.key not in known]
    return runs


if __name__ == "__main__":
    sys.exit(main())
