r"""Writes docs/values.md: which results of PyTorch's operators on small known tensors are right.

phantora run --ranks 1 -- tests/e2e/programs/operator_table.py --samples 1 --shard 0/16 --out 0.json
python tools/operator_values.py --release 2.15.0 0.json 1.json ... --release 2.8.0 ...
"""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parent.parent / "docs" / "values.md"
HEAD = """# Values of small tensors

Which results of PyTorch's operators a program can read back from the simulated GPU.
[Small operations](decisions/small-operations.md) has the rules. Made by `tools/operator_values.py`
from what `tests/e2e/programs/operator_table.py` found with PyTorch {releases}, in the whole tables
`op_db` and `foreach_*_op_db` that PyTorch tests itself with: one sample for each operator, type
(int64, bool, bf16, fp32) and variant (function, in place, `out=`). All inputs are known.

A result is *right* if it is what PyTorch's CPU kernel finds. It is *unknown* if a program that
reads it back gets zeros, which the report counts. A wrong one is a fault: {wrong} found.

"""
CLASSES = (
    (r"_foreach_", "lists of tensors (`_foreach_*`)"),
    (r"linalg|mm$|mm\.|^(addmv|addr|mv|matmul|cholesky|lu|qr|svd)|geqrf|ormqr", "linear algebra"),
    (r"nn\.functional", "`torch.nn.functional`"),
    (r"^fft", "Fourier transforms"),
    (r"^special", "`torch.special`"),
    (r"sort|topk|unique|search|bucket|nonzero|where|index|gather", "sorting, selecting, counting"),
    (r"scatter|select|take|put|mask|hist|count", "sorting, selecting, counting"),
)
OTHERS = "all others"
KINDS = ("right", "unknown", "skipped")
Row = list[Any]
"""Operator, type, variant, verdict on results, verdict on inputs, count."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--release",
        nargs="+",
        action="append",
        required=True,
        metavar=("VERSION", "FILE"),
        help="a release of PyTorch and what all shards found with it",
    )
    options = parser.parse_args()
    found = {version: read(files) for version, *files in options.release}
    PAGE.write_text(page(found), encoding="utf-8")


def read(files: Iterable[str]) -> list[Row]:
    """What shards found."""
    return [row for path in files for row in json.loads(Path(path).read_text(encoding="utf-8"))]


def page(found: Mapping[str, list[Row]]) -> str:
    """The page. `found`: by release."""
    wrong = sum(row[5] for rows in found.values() for row in rows if kind_of(row) == "wrong")
    parts = [HEAD.format(releases=" and ".join(found), wrong=wrong or "none"), table_of(found)]
    parts += ["\n## What was skipped\n\n", reasons_of(found)]
    for release, rows in found.items():
        parts += operators_of(release, rows)
    return "".join(parts)


def operators_of(release: str, rows: list[Row]) -> Iterator[str]:
    """By what became of their results; those that are right are named by nothing else."""
    by_operator: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for row in rows:
        by_operator[row[0]][kind_of(row)] += row[5]
    names: defaultdict[str, list[str]] = defaultdict(list)
    for name, kinds in sorted(by_operator.items()):
        if kinds["unknown"]:
            names["in part" if kinds["right"] else "unknown"].append(name)
        elif kinds["right"]:
            names["right"].append(name)
    yield section(f"Unknown with {release}", "No result is known.", names["unknown"])
    yield section(f"Unknown in part with {release}", "Of some types or variants.", names["in part"])
    yield section(f"Right with {release}", "Every result that was not skipped.", names["right"])


def kind_of(row: Row) -> str:
    """right, unknown, skipped or wrong; what raised on the device alone is wrong, too."""
    if row[4].startswith("wrong"):
        return "wrong"
    kind: str = row[3].split(":")[0]
    return kind if kind in KINDS else "wrong"


def table_of(found: Mapping[str, list[Row]]) -> str:
    counts: defaultdict[str, Counter[tuple[str, str]]] = defaultdict(Counter)
    for release, rows in found.items():
        for row in rows:
            for name in (class_of(row[0]), "all"):
                counts[name][release, kind_of(row)] += row[5]
    columns = [(release, kind) for release in found for kind in KINDS]
    titles = [f"{kind}, {release}" for release, kind in columns]
    lines = [f"| operators | {' | '.join(titles)} |", f"| --- |{' ---: |' * len(titles)}"]
    for name in (*dict.fromkeys(name for _, name in CLASSES), OTHERS, "all"):
        numbers = " | ".join(f"{counts[name][column]:,}" for column in columns)
        lines.append(f"| {name} | {numbers} |")
    return "\n".join(lines) + "\n"


def class_of(operator: str) -> str:
    return next((name for pattern, name in CLASSES if re.search(pattern, operator)), OTHERS)


def reasons_of(found: Mapping[str, list[Row]]) -> str:
    reasons: Counter[tuple[str, str]] = Counter()
    for release, rows in found.items():
        for row in rows:
            if kind_of(row) == "skipped":
                reasons[row[3].removeprefix("skipped: "), release] += row[5]
    lines = [f"| reason | {' | '.join(found)} |", f"| --- |{' ---: |' * len(found)}"]
    for reason in dict.fromkeys(reason for (reason, _), _ in reasons.most_common()):
        numbers = " | ".join(f"{reasons[reason, release]:,}" for release in found)
        lines.append(f"| {reason} | {numbers} |")
    return "\n".join(lines) + "\n"


def section(title: str, text: str, names: Iterable[str]) -> str:
    listed = ", ".join(f"`{name}`" for name in names) or "None."
    return f"\n## {title}\n\n{text}\n\n{listed}\n"


if __name__ == "__main__":
    main()
