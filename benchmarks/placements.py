"""How much better the search of `phantora plan` is than rules of thumb, under its own model.

    python benchmarks/placements.py [TASKS]

The protocol of Lin et al. (TPDS 2025): 36 to 66 tables, batches of 512 to 4,096 samples, whole
tables on 4 ranks of A100; tables are drawn as tests/plan/placement_tasks.py draws them. Prints the
table of docs/recommendation.md: of each task the best rule, the search among whole tables, and the
search among all sharding types.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests/plan"))
from placement_tasks import random_tables, task

from phantora_py.plan.baselines import baselines
from phantora_py.plan.curves import measure
from phantora_py.plan.search import search
from phantora_py.plan.tables import SHARDING_TYPES
from sim_server.cluster import load_cluster, place

_RANKS = 4


def main() -> None:
    """Prints a line for each task, and a summary."""
    tasks = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    cluster = load_cluster("a100")
    curves = measure(cluster, place(cluster, _RANKS, None, _RANKS))
    ratios = []
    for seed in range(tasks):
        random = np.random.default_rng([2025, seed])
        count = int(random.integers(36, 67))
        state = random.bit_generator.state
        line = f"{seed:3} {count:3} tables"
        for kinds in (("table_wise",), SHARDING_TYPES):
            random.bit_generator.state = state
            model = task(random_tables(count, random, kinds), _RANKS, random, shared=curves)
            known = baselines(model)
            name = min(known, key=lambda one: model.cost_ns(known[one]))
            rule = model.cost_ns(known[name])
            start_s = time.monotonic()
            best = model.cost_ns(search(model, "anneal", tuple(known.values()))[0])
            ratios.append((rule / best, time.monotonic() - start_s))
            line += f"   {name} {rule / 1e6:.3f} ms, {rule / best:.3f}, {ratios[-1][1]:.1f} s"
        print(line, flush=True)
    for title, place_ in (("whole tables", 0), ("all types", 1)):
        gains = [ratio for ratio, _ in ratios[place_::2]]
        better = sum(gain > 1.001 for gain in gains)
        print(
            f"{title}: better in {better} of {len(gains)}, worse in {sum(g < 1 for g in gains)}; "
            f"median {np.median(gains):.3f}, most {max(gains):.3f}; "
            f"at most {max(s for _, s in ratios[place_::2]):.0f} s"
        )


if __name__ == "__main__":
    main()
