"""Whether the model of `phantora plan` picks the placement that is fastest when it is run.

    python benchmarks/plan_regret.py [TASKS]

Lin et al. (TPDS 2025) time every plan of seven rules on their GPUs and count how often their model
picks the fastest, or one within 10 % of it. Here the programs of `--confirm` stand for the GPUs:
2 ranks of A100, 6 to 12 tables drawn as tests/plan/placement_tasks.py draws them. A pick is strict
if its program is the fastest of all; its regret is how much longer it takes. Some 100 s a task.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests/plan"))
from placement_tasks import random_tables, task

from phantora_py.advice.confirm import confirm
from phantora_py.plan.baselines import baselines
from phantora_py.plan.curves import Curves, measure
from phantora_py.plan.model import PlanModel
from phantora_py.plan.sharding_plan import to_json
from sim_server.cluster import Layout, load_cluster

_RANKS = 2
# What Lin's seven do not have.
_OTHERS = {"torchrec's rule"}
_CLOSE = 1.1

Choice = tuple[int, ...]


def main() -> None:
    """Prints a line for each task, and a summary."""
    tasks = int(sys.argv[1]) if len(sys.argv) > 1 else 8
    cluster = load_cluster("a100")
    shared = measure(cluster, Layout(1, _RANKS))
    ratios = [_task(seed, shared) for seed in range(tasks)]
    strict = sum(ratio == 1.0 for ratio in ratios)
    close = sum(ratio <= _CLOSE for ratio in ratios)
    print(
        f"of {tasks} tasks: fastest picked in {strict}, within 10 % in {close}; "
        f"regret {np.mean(ratios) - 1:.1%} in the mean, {max(ratios) - 1:.1%} at most"
    )


def _task(seed: int, shared: Curves) -> float:
    """How much longer the picked placement takes than the fastest, as programs."""
    random = np.random.default_rng([2025, seed])
    tables = random_tables(int(random.integers(6, 13)), random, ("table_wise",))
    model = task(tables, Layout(1, _RANKS), random, shared=shared)
    rules = {name: one for name, one in baselines(model).items() if name not in _OTHERS}
    choices = sorted(set(rules.values()), key=model.cost_ns)
    times_ns = _run(model, choices)
    fastest = min(range(len(choices)), key=times_ns.__getitem__)
    ratio = times_ns[0] / times_ns[fastest]
    expected = model.cost_ns(choices[0]) / model.cost_ns(choices[-1])
    names = [name for name, choice in rules.items() if choice == choices[0]]
    print(
        f"{seed:3} {len(tables):3} tables of {model.batch}: {len(choices)} placements; picked "
        f"{', '.join(names)}: {times_ns[0] / 1e6:.2f} ms, fastest {times_ns[fastest] / 1e6:.2f} ms "
        f"({ratio - 1:.1%}), slowest {max(times_ns) / 1e6:.2f} ms (picked / slowest: model "
        f"{expected:.2f}, programs {times_ns[0] / max(times_ns):.2f})",
        flush=True,
    )
    return ratio


def _run(model: PlanModel, choices: Sequence[Choice]) -> list[float]:
    """The median iteration of each placement's program."""
    plans = [
        to_json(
            model.tables,
            [model.options[table][option] for table, option in enumerate(choice)],
            _RANKS,
            "tables",
        )
        for choice in choices
    ]
    with tempfile.TemporaryDirectory(prefix="phantora-regret-") as folder:
        file = Path(folder) / "tables.json"
        content = {"tables": [dict(table.spec) for table in model.tables]}
        file.write_text(json.dumps(content), encoding="utf-8")
        options = {"cluster": "a100", "ranks": _RANKS, "gpus-per-node": _RANKS}
        found = confirm(plans, file, model.batch, options)
    return [one["median_ns"] for one in found]


if __name__ == "__main__":
    main()
