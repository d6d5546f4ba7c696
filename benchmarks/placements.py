"""How much better the search of `phantora plan` is than rules of thumb, under its own model.

    python benchmarks/placements.py [TASKS [NODES]]

The protocol of Lin et al. (TPDS 2025): 36 to 66 tables, batches of 512 to 4,096 samples, whole
tables on 4 ranks of A100; tables are drawn as tests/plan/placement_tasks.py draws them. Prints the
table of docs/recommendation.md: of each task the best rule, the search among whole tables, and the
search among all sharding types; on several nodes of 4 ranks also among those that know no nodes.
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
from sim_server.cluster import Layout, load_cluster

_GPUS = 4
_KINDS = {"whole tables": ("table_wise",), "all types": SHARDING_TYPES}
_NO_NODES = ("table_wise", "row_wise", "column_wise", "data_parallel")


def main() -> None:
    """Prints a line for each task, and a summary."""
    tasks, nodes = (int(one) for one in (*sys.argv[1:], *("20", "1")[len(sys.argv) - 1 :]))
    cluster, layout = load_cluster("a100"), Layout(nodes, _GPUS)
    curves = measure(cluster, layout)
    kinds = _KINDS if nodes == 1 else {**_KINDS, "without those of nodes": _NO_NODES}
    found: dict[str, list[tuple[float, float, float]]] = {title: [] for title in kinds}
    for seed in range(tasks):
        random = np.random.default_rng([2025, seed])
        count = int(random.integers(36, 67))
        state = random.bit_generator.state
        line = f"{seed:3} {count:3} tables"
        for title, allowed in kinds.items():
            random.bit_generator.state = state
            model = task(random_tables(count, random, allowed), layout, random, shared=curves)
            known = baselines(model)
            name = min(known, key=lambda one: model.cost_ns(known[one]))
            rule = model.cost_ns(known[name])
            start_s = time.process_time()
            best = model.cost_ns(search(model, "anneal", tuple(known.values()))[0])
            found[title].append((rule / best, best, time.process_time() - start_s))
            line += f"   {name} {rule / 1e6:.3f} ms, {rule / best:.3f}, {found[title][-1][2]:.1f} s"
        print(line, flush=True)
    for title, results in found.items():
        gains, times, seconds = (np.array(one) for one in zip(*results, strict=True))
        against = np.array([best for _, best, _ in found["all types"]])
        print(
            f"{title}: better in {(gains > 1.001).sum()} of {tasks}, worse in {(gains < 1).sum()}; "
            f"median {np.median(gains):.3f}, most {gains.max():.3f}; times as long as with all "
            f"types {np.median(times / against):.3f}, most {(times / against).max():.3f}; "
            f"at most {seconds.max():.0f} s"
        )


if __name__ == "__main__":
    main()
