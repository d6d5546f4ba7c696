"""Whole training runs against what was published of them.

    python benchmarks/accuracy                          four published runs that are built in
    python benchmarks/accuracy FOLDER [--write]         these and a sample of FOLDER's

FOLDER has `training_llmfoundry_mpt.csv` and `training_nanotron.csv`; they are not part of the
repository. The programs are our own, written after those that were measured (`train_mpt.py`,
`train_nanotron.py`); each is run as it was published, and nothing is tuned to a run. `--write` puts
the tables into docs/accuracy-training.md.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from page import PAGE, lines, write
from predict import Predictions
from published import BUILT_IN, read_runs, sample
from spread import Outcome


def main() -> int:
    """Print or write the tables. Exit code 1 if a simulation failed, 2 if FOLDER is not one."""
    assert __doc__ is not None
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, nargs="?", help="of the measurements")
    parser.add_argument("--gpus", type=int, default=32, help="at most; default: 32")
    parser.add_argument(
        "--every", type=int, default=13, help="take every so many of a family; default: 13"
    )
    parser.add_argument("--only", default="", help="families whose name has this")
    parser.add_argument(
        "--keep", type=Path, metavar="FILE", help="of predictions: made once, then read from here"
    )
    parser.add_argument(
        "--no-new", action="store_true", help="leave out runs that FILE has no prediction of"
    )
    parser.add_argument("--write", action="store_true", help=f"into docs/{PAGE.name}")
    options = parser.parse_args()
    if options.folder is not None and not options.folder.is_dir():
        print(f"{options.folder} is no folder", file=sys.stderr)
        return 2
    runs = list(BUILT_IN)
    if options.folder is not None:
        chosen = sample(list(read_runs(options.folder)), options.gpus, options.every)
        known = {run.key for run in runs}
        runs += [run for run in chosen if run.key not in known]
    predictions = Predictions(options.keep)
    outcomes, left_out, failed = [], [], 0
    for run in runs:
        if options.only not in run.family:
            continue
        if options.no_new and not predictions.has(run):
            left_out.append(run)
            continue
        try:
            outcomes.append(Outcome(run, predictions.of(run)))
        except subprocess.CalledProcessError as error:
            failed += 1
            print(f"{run.key}: {error}\n{error.stderr}", file=sys.stderr)
            continue
        print(f"{run.key}: {outcomes[-1].error:+.0%}", file=sys.stderr)
    if outcomes:
        found = lines(outcomes, left_out)
        print("\n".join(found))
        if options.write:
            write(found)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
