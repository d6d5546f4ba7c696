r"""Writes docs/values.md: which results of PyTorch's operators on small known tensors are right.

phantora run --ranks 1 -- tests/e2e/programs/operator_table.py --samples 1 --shard 0/16 --out 0.json
python tools/operator_values.py --torch 2.15.0 --shards "0 to 15 of 16" 0.json 1.json ...
"""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parent.parent / "docs" / "values.md"
HEAD = """# Values of small tensors

Which results of PyTorch's operators a program can read back from the simulated GPU.
[Small operations](decisions/small-operations.md) has the rules. Made by `tools/operator_values.py`
from what `tests/e2e/programs/operator_table.py` found with PyTorch {torch}: shards {shards} of the
tables `op_db` and `foreach_*_op_db` that PyTorch tests itself with, one sample for each operator,
type (int64, bool, bf16, fp32) and variant (function, in place, `out=`). All inputs are known.

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="+", type=Path)
    parser.add_argument("--torch", required=True, help="the release")
    parser.add_argument("--shards", required=True, help="which were run, for the page")
    options = parser.parse_args()
    rows = [row for path in options.rows for row in json.loads(path.read_text())]
    PAGE.write_text(page(rows, options.torch, options.shards))


def page(rows: list[list[Any]], torch: str, shards: str) -> str:
    """`rows`: operator, type, variant, verdict on results, verdict on inputs, count."""
    wrong = sum(row[5] for row in rows if kind_of(row) == "wrong")
    parts = [HEAD.format(torch=torch, shards=shards, wrong=wrong or "none"), table_of(rows)]
    parts += ["\n## What was skipped\n\n", reasons_of(rows)]
    by_operator: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for row in rows:
        by_operator[row[0]][kind_of(row)] += row[5]
    right: list[str] = []
    some: list[str] = []
    unknown: list[str] = []
    for name, kinds in sorted(by_operator.items()):
        if kinds["unknown"] == 0 and kinds["wrong"] == 0 and kinds["right"]:
            right.append(name)
        elif kinds["unknown"]:
            (some if kinds["right"] else unknown).append(name)
    parts += [section("Unknown", "No result is known.", unknown)]
    parts += [section("Unknown in part", "Of some types or variants.", some)]
    parts += [section("Right", "Every result that was not skipped.", right)]
    return "".join(parts)


def kind_of(row: list[Any]) -> str:
    """right, unknown, skipped or wrong; what raised on the device alone is wrong, too."""
    if row[4].startswith("wrong"):
        return "wrong"
    kind: str = row[3].split(":")[0]
    return kind if kind in ("right", "unknown", "skipped") else "wrong"


def table_of(rows: list[list[Any]]) -> str:
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for row in rows:
        for name in (class_of(row[0]), "all"):
            counts[name][kind_of(row)] += row[5]
    order = [*dict.fromkeys(name for _, name in CLASSES), OTHERS, "all"]
    lines = ["| operators | right | unknown | skipped |", "| --- | ---: | ---: | ---: |"]
    for name in order:
        if name in counts:
            kinds = counts[name]
            numbers = " | ".join(f"{kinds[kind]:,}" for kind in ("right", "unknown", "skipped"))
            lines.append(f"| {name} | {numbers} |")
    return "\n".join(lines) + "\n"


def class_of(operator: str) -> str:
    return next((name for pattern, name in CLASSES if re.search(pattern, operator)), OTHERS)


def reasons_of(rows: list[list[Any]]) -> str:
    reasons: Counter[str] = Counter()
    for row in rows:
        if kind_of(row) == "skipped":
            reasons[row[3].removeprefix("skipped: ")] += row[5]
    lines = ["| reason | results |", "| --- | ---: |"]
    lines += [f"| {reason} | {count:,} |" for reason, count in reasons.most_common()]
    return "\n".join(lines) + "\n"


def section(title: str, text: str, names: Iterable[str]) -> str:
    listed = ", ".join(f"`{name}`" for name in names) or "None."
    return f"\n## {title}\n\n{text}\n\n{listed}\n"


if __name__ == "__main__":
    main()
