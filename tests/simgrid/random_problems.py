"""Random topologies and sets of flows with staggered starts, by a seed each."""

from __future__ import annotations

import dataclasses
import random
from math import inf
from typing import Any

from sim_server.cluster import Routing, load_cluster
from sim_server.network import Gpu, Topology

_GRAPH_SEEDS = 2


def make_problem(seed: int) -> dict[str, Any]:
    """Capacities and flows as `simgrid_flows` reads them: a free graph or a cluster's fabric."""
    chance = random.Random(seed)
    network = _graph(chance) if seed % _GRAPH_SEEDS else _cluster(chance)
    capacities, paths = network
    flows = [
        {
            "path": path,
            "size_bytes": round(10 ** chance.uniform(6, 9)),
            "cap": chance.choice([None, None, round(10 ** chance.uniform(8, 10.5))]),
            # Every third starts together with others.
            "start_s": chance.choice([0.0, round(chance.uniform(0, 0.2), 9), 0.05]),
        }
        for path in paths
    ]
    return {"capacities": capacities, "flows": flows}


def _graph(chance: random.Random) -> tuple[list[float], list[list[int]]]:
    """Directed random graph of 4 to 12 vertices; flows take shortest paths between random ends."""
    vertices = chance.randint(4, 12)
    # A cycle makes every vertex reachable.
    edges = [(one, (one + 1) % vertices) for one in range(vertices)]
    for _ in range(chance.randint(0, 2 * vertices)):
        one, other = chance.sample(range(vertices), 2)
        edges.append((one, other))
    edges = list(dict.fromkeys(edges))
    capacities = [float(round(10 ** chance.uniform(8.5, 11))) for _ in edges]
    paths = []
    for _ in range(chance.randint(2, 40)):
        source, destination = chance.sample(range(vertices), 2)
        paths.append(_shortest_path(edges, source, destination))
    return capacities, paths


def _shortest_path(edges: list[tuple[int, int]], source: int, destination: int) -> list[int]:
    reached: dict[int, list[int]] = {source: []}
    frontier = [source]
    while destination not in reached:
        following = []
        for vertex in frontier:
            for index, (one, other) in enumerate(edges):
                if one == vertex and other not in reached:
                    reached[other] = [*reached[vertex], index]
                    following.append(other)
        frontier = following
    return reached[destination]


def _cluster(chance: random.Random) -> tuple[list[float], list[list[int]]]:
    """Nodes of 1 to 4 GPUs under leaves and spines, sends between random GPUs."""
    h100 = load_cluster("h100")
    gpus = chance.choice([1, 2, 4])
    nics = chance.choice([number for number in (1, 2, 4) if gpus % number == 0])
    nodes = chance.randint(2, 8)
    topology = Topology(
        dataclasses.replace(
            h100,
            gpus_per_node=gpus,
            nic=dataclasses.replace(
                h100.nic, per_node=nics, bandwidth_bytes_per_s=chance.choice([25, 50, 60]) * 10**9
            ),
            fabric=dataclasses.replace(
                h100.fabric,
                leaf_downlinks=nics * chance.choice([1, 2, 4]),
                spines=chance.choice([1, 2, 3]),
                oversubscription=chance.choice([1.0, 1.5, 4.0]),
                routing=chance.choice(list(Routing)),
                seed=chance.randint(0, 99),
            ),
        ),
        nodes,
    )
    everywhere = [Gpu(node, number) for node in range(nodes) for number in range(gpus)]
    paths = [
        list(topology.path(*chance.sample(everywhere, 2))) for _ in range(chance.randint(2, 60))
    ]
    return [float(link.capacity_bytes_per_s) for link in topology.links], paths


def cap_bytes_per_s(flow: dict[str, Any]) -> float:
    """The flow's own limit; infinite without one."""
    return inf if flow["cap"] is None else float(flow["cap"])
