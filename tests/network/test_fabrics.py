"""Fabrics other than leaves and spines, from files, with their routes and their mistakes."""

from __future__ import annotations

import json
from itertools import pairwise, permutations
from pathlib import Path
from xml.etree import ElementTree

import pytest
import simpy

from phantora_py.cli import main
from sim_server.cluster import Cluster, load_cluster, most_nodes
from sim_server.collectives import Communication
from sim_server.errors import UsageError
from sim_server.network import Gpu, Topology
from sim_server.network.link_use import link_class
from sim_server.records import NcclOpKind
from sim_server.records.operations import Operation

INT8 = 0
SMALL = 'base = "h100"\ngpus_per_node = 2\n[nic]\nper_node = 2\n'
LINK = 'bandwidth = "400 Gb/s", latency = "600 ns" }'
TRIANGLE = [("nic 0.0", "a"), ("nic 1.0", "b"), ("nic 2.0", "c"), ("a", "b"), ("b", "c")]


def cluster_of(tmp_path: Path, text: str) -> Cluster:
    path = tmp_path / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return load_cluster(str(path))


def fabric(text: str) -> str:
    return f'{SMALL}[fabric]\nrouting = "single"\n{text}'


def graph(links: list[tuple[str, str]]) -> str:
    listed = ",\n".join(f'{{ from = "{one}", to = "{other}", {LINK}' for one, other in links)
    head = 'base = "h100"\ngpus_per_node = 1\n[nic]\nper_node = 1\n[fabric]\nrouting = "single"\n'
    return f'{head}topology = "graph"\nlinks = [\n{listed}\n]\n'


def stops(topology: Topology, source: Gpu, destination: Gpu) -> list[str]:
    links = [topology.links[link] for link in topology.path(source, destination)]
    assert all(one.target == next_.source for one, next_ in pairwise(links))
    return [links[0].source, *(link.target for link in links)]


FABRICS = {
    "rail-optimised": ('topology = "rail-optimised"\nleaf_downlinks = 2\nspines = 2\n', 4),
    "rail-only": ('topology = "rail-only"\nleaf_downlinks = 4\n', 4),
    # 16 NICs, of 2 a node.
    "fat-tree": ('topology = "fat-tree"\nports = 4\n', 8),
    "dragonfly": (
        'topology = "dragonfly"\ngroups = 3\nrouters = 2\nrouter_nics = 2\n',
        6,
    ),
    "torus 2-D": ('topology = "torus"\nshape = [3, 4]\n', 12),
    "torus 3-D": ('topology = "torus"\nshape = [2, 3, 2]\n', 12),
}


@pytest.mark.parametrize("routing", ["single", "ecmp"])
@pytest.mark.parametrize("name", FABRICS)
def test_every_gpu_reaches_every_other(tmp_path: Path, name: str, routing: str) -> None:
    """Routes are chains of links that visit no vertex twice, in every fabric, and JSON keeps it."""
    text, nodes = FABRICS[name]
    cluster = cluster_of(tmp_path, fabric(text).replace('"single"', f'"{routing}"'))
    assert Cluster.from_dict(json.loads(json.dumps(cluster.to_dict()))) == cluster
    topology = Topology(cluster, nodes)
    gpus = [Gpu(node, number) for node in range(nodes) for number in range(2)]
    for one, other in permutations(gpus, 2):
        visited = stops(topology, one, other)
        assert visited[0] == f"gpu {one.node}.{one.number}"
        assert visited[-1] == f"gpu {other.node}.{other.number}"
        assert len(set(visited)) == len(visited)


@pytest.mark.parametrize(
    ("name", "switches", "connections"),
    [
        # 4 pods of 2 + 2 switches and 4 cores; 3 x 16 connections, of which 16 are the NICs'.
        ("fat-tree", 20, 48),
        # 6 routers; 12 NICs, one connection in each group, one between each two groups.
        ("dragonfly", 6, 12 + 3 + 3),
        # 12 routers, two connections of each, and 24 NICs.
        ("torus 2-D", 12, 24 + 24),
        # Rings of two have one connection, not two: 6 + 12 + 6.
        ("torus 3-D", 12, 24 + 24),
    ],
)
def test_fabric_has_the_links_of_its_kind(
    tmp_path: Path, name: str, switches: int, connections: int
) -> None:
    """Counts of switches and connections are those of the definitions."""
    text, nodes = FABRICS[name]
    cluster = cluster_of(tmp_path, fabric(text))
    assert most_nodes(cluster) == nodes
    links = [
        link
        for link in Topology(cluster, nodes).links
        if not any(end.startswith(("gpu", "nvswitch")) for end in (link.source, link.target))
    ]
    ends = {end for link in links for end in (link.source, link.target)}
    assert len([end for end in ends if not end.startswith("nic")]) == switches
    assert len(links) == 2 * connections


@pytest.mark.parametrize("name", FABRICS)
def test_reports_name_every_link(tmp_path: Path, name: str) -> None:
    """NICs, PCIe and NVLink are told from links between switches."""
    text, nodes = FABRICS[name]
    topology = Topology(cluster_of(tmp_path, fabric(text)), nodes)
    classes = {link_class(link) for link in topology.links}
    on_rails = {"leaf uplink"} if name == "rail-optimised" else set()
    between = on_rails if name.startswith("rail") else {"switch link"}
    assert classes == {"NVLink", "PCIe", "NIC"} | between


def test_torus_takes_the_short_way_round(tmp_path: Path) -> None:
    """From one end of a row to the other there is one hop, not three."""
    topology = Topology(cluster_of(tmp_path, fabric(FABRICS["torus 2-D"][0])), 12)
    middle = stops(topology, Gpu(0, 0), Gpu(3, 0))[2:-2]
    assert middle == ["router 0.0", "router 0.3"]


def test_pxn_keeps_to_the_rail_of_the_destination(tmp_path: Path) -> None:
    """Bytes for another rail go over NVLink to its GPU first; without PXN they cross the spines."""
    cluster = cluster_of(tmp_path, fabric(FABRICS["rail-optimised"][0]))
    crossing = (Gpu(0, 0), Gpu(1, 1))
    with_pxn = stops(Topology(cluster, 4), *crossing)
    assert with_pxn[:5] == ["gpu 0.0", "nvswitch 0", "gpu 0.1", "nic 0.1", "leaf 0.1"]
    assert not any(stop.startswith("spine") for stop in with_pxn)
    without = stops(Topology(cluster, 4, pxn=False), *crossing)
    assert without[1:4] == ["nic 0.0", "leaf 0.0", "spine 1"]


def test_all_to_all_is_faster_with_pxn(tmp_path: Path) -> None:
    """Where spines are oversubscribed, NCCL_PXN_DISABLE=1 costs an all-to-all time."""
    text = fabric(FABRICS["rail-optimised"][0] + "oversubscription = 8\n")
    cluster = cluster_of(tmp_path, text.replace("leaf_downlinks = 2", "leaf_downlinks = 4"))
    times_ns = []
    for variables in ({}, {"NCCL_PXN_DISABLE": "1"}):
        env = simpy.Environment()
        communication = Communication(env, cluster, 4, 2, variables)
        env.run(
            communication.start(Operation(NcclOpKind.ALL_TO_ALL, 1 << 24, INT8, tuple(range(8))))
        )
        times_ns.append(env.now)
    assert times_ns[1] > 2 * times_ns[0]


def test_rails_without_spines_need_pxn(tmp_path: Path) -> None:
    """Rails that nothing joins are reached over NVLink only; the message names the pair."""
    cluster = cluster_of(tmp_path, fabric(FABRICS["rail-only"][0]))
    assert "gpu 0.1" in stops(Topology(cluster, 2), Gpu(0, 0), Gpu(1, 1))
    with pytest.raises(UsageError, match=r"gpu 0.0 cannot reach gpu 1.1: nic 0.0 and nic 1.1"):
        Topology(cluster, 2, pxn=False).path(Gpu(0, 0), Gpu(1, 1))


def test_free_form_graph_is_what_the_file_says(tmp_path: Path) -> None:
    """Three switches in a row: two hops between the outer ones."""
    cluster = cluster_of(tmp_path, graph(TRIANGLE))
    topology = Topology(cluster, 3)
    middle = stops(topology, Gpu(0, 0), Gpu(2, 0))[1:-1]
    assert middle == ["nic 0.0", "a", "b", "c", "nic 2.0"]
    assert topology.latency_ns(topology.path(Gpu(0, 0), Gpu(2, 0))) == 2 * 300 + 4 * 600


def test_gpus_on_pcie_share_the_host(tmp_path: Path) -> None:
    """GPUs of one PCIe switch do not leave it; others share the uplinks and the host."""
    cluster = cluster_of(
        tmp_path,
        'base = "h100"\ngpu_links = "pcie"\ncollectives = "pcie"\n'
        '[host]\ngpus_per_switch = 2\nuplink_bandwidth = "30 GB/s"\nbandwidth = "40 GB/s"\n',
    )
    topology = Topology(cluster, 1)
    assert stops(topology, Gpu(0, 0), Gpu(0, 1)) == ["gpu 0.0", "pcie 0.0", "gpu 0.1"]
    inner = stops(topology, Gpu(0, 1), Gpu(0, 2))[1:-1]
    assert inner == ["pcie 0.0", "host 0", "memory 0", "pcie 0.1"]
    path = topology.path(Gpu(0, 1), Gpu(0, 2))
    capacities = [topology.links[link].capacity_bytes_per_s / 1e9 for link in path]
    assert capacities == [63, 30, 40, 30, 63]
    assert {link_class(topology.links[link]) for link in path} == {"PCIe"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (fabric('topology = "fat-tree"\n'), "fabric.ports is missing"),
        (fabric('topology = "fat-tree"\nports = 5\n'), "fabric.ports = 5 is odd"),
        (fabric("ports = 4\n"), 'fabric.ports is of no use with topology = "leaf-spine"'),
        (fabric('topology = "torus"\nshape = [4]\n'), r"fabric.shape = \[4\] is no torus"),
        (
            fabric('topology = "torus"\nshape = [4, 4]\n').replace('"single"', '"adaptive"'),
            'fabric.routing = "adaptive" is not modelled with topology = "torus"',
        ),
        (
            "nodes = 9\n" + fabric('topology = "fat-tree"\nports = 4\n'),
            "nodes = 9 do not fit: the fat-tree has room for 8",
        ),
        ('base = "h100"\n[nic]\nbandwidth = "0 Gb/s"\n', 'nic.bandwidth: "0 Gb/s" is no capacity'),
        (graph([*TRIANGLE[:4]]), "there is no way from 'nic 0.0' to 'nic 2.0'"),
        (graph([*TRIANGLE, ("c", "d")]), "the link of 'd' and 'c' is unused"),
        (graph([*TRIANGLE, ("b", "a")]), "a and b are joined 2 times"),
        (graph([*TRIANGLE, ("a", "nic 4.0")]), "'nic 3.0' has no link"),
        (graph([*TRIANGLE, ("a", "nic 1.1")]), "'nic 1.1' is not a NIC"),
        (graph([*TRIANGLE, ("a", "a")]), "fabric.links: number 6: 'a' is joined to itself"),
        (graph([*TRIANGLE, ("a", "host 1")]), "number 6: 'host 1' is no name of a switch"),
        (graph(TRIANGLE).replace("600 ns", "600"), 'number 1: "600" has no unit'),
    ],
)
def test_mistakes_are_named(tmp_path: Path, text: str, message: str) -> None:
    """The message says which setting, pair or link is wrong."""
    with pytest.raises(UsageError, match=message):
        cluster_of(tmp_path, text)


def test_too_many_nodes_are_refused(tmp_path: Path) -> None:
    """A fabric of a fixed size says how many nodes it has room for."""
    cluster = cluster_of(tmp_path, fabric(FABRICS["torus 2-D"][0]))
    with pytest.raises(UsageError, match="13 nodes do not fit: its fabric, torus, has room for 12"):
        Topology(cluster, 13)


@pytest.mark.parametrize("name", FABRICS)
def test_cluster_show_draws(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    """Every vertex is a circle, every connection a line, in SVG that an XML parser accepts."""
    text, nodes = FABRICS[name]
    cluster = cluster_of(tmp_path, fabric(text))
    picture = tmp_path / "mine.svg"
    arguments = [str(tmp_path / "mine.toml"), "--nodes", str(nodes), "--svg", str(picture)]
    assert main(["cluster", "show", *arguments]) == 0
    assert f"fabric: {cluster.fabric.kind.value}" in capsys.readouterr().out
    root = ElementTree.fromstring(picture.read_text(encoding="utf-8"))
    links = Topology(cluster, nodes).links
    space = "{http://www.w3.org/2000/svg}"
    vertices = {link.source for link in links}
    assert len(root.findall(f"{space}circle")) == len(vertices)
    assert len(root.findall(f"{space}path")) == len(links) // 2
