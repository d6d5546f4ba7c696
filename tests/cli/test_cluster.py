"""`phantora cluster`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from phantora_py.cli import main
from sim_server.cluster import Cluster, builtin_names, load_cluster


def test_list_names_all(capsys: pytest.CaptureFixture[str]) -> None:
    """Every built-in cluster has a line; --json has them whole."""
    assert main(["cluster", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[:-1]] == builtin_names()
    assert lines[4] == "h200      8 x h200 a node, NVLink 450 GB/s, 8 NICs of 50 GB/s"
    assert main(["cluster", "list", "--json"]) == 0
    described = json.loads(capsys.readouterr().out)
    clusters = [load_cluster(name) for name in builtin_names()]
    assert [Cluster.from_dict(one) for one in described] == clusters


def test_show(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Links with capacity and latency, the fabric with its oversubscription, and paths."""
    file = tmp_path / "mine.toml"
    file.write_text(
        'base = "h100"\nnodes = 8\n[fabric]\noversubscription = 2.0\nrouting = "ecmp"\nspines = 4\n'
    )
    assert main(["cluster", "show", str(file)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "mine: 8 nodes of 8 GPUs (h100), 8 NICs each; collectives as on hopper",
        "fabric: leaf and spine, 4 nodes on a leaf, 4 spines, oversubscription 2, routing ecmp "
        "(one spine for a flow)",
        "links of 8 nodes, each direction:",
        "  gpu - nvswitch      64 of   450 GB/s, 250 ns",
        "  gpu - nic           64 of    63 GB/s, 300 ns",
        "  nic - leaf          64 of    50 GB/s, 600 ns",
        "  leaf - spine         8 of   200 GB/s, 200 ns",
        "paths:",
        "  in a node       gpu, nvswitch, gpu: 450 GB/s, 500 ns",
        "  in a leaf       gpu, nic, leaf, nic, gpu: 50 GB/s, 1.80 us",
        "  between leaves  gpu, nic, leaf, spine, leaf, nic, gpu: 50 GB/s, 2.20 us",
    ]


MIXED = """
base = "h100"
[[node_groups]]
nodes = 3
[[node_groups]]
base = "a100"
nodes = 1
[[nic_exceptions]]
nic = "nic 1.3"
bandwidth = "100 Gb/s"
"""


def test_mixed_nodes_are_shown_and_drawn(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Groups and slow NICs have lines; in the picture GPUs of different models differ in colour."""
    file, picture = tmp_path / "mine.toml", tmp_path / "mine.svg"
    file.write_text(MIXED)
    assert main(["cluster", "show", str(file), "--svg", str(picture)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:4] == [
        "mine: 4 nodes of 2 groups",
        "  nodes 0-2    8 GPUs (h100), 8 NICs each; collectives as on hopper",
        "  node 3       8 GPUs (a100), 8 NICs each; collectives as on ampere",
        "nic 1.3 has 12.5 GB/s",
    ]
    assert "  nic - leaf           1 of  12.5 GB/s, 600 ns" in lines
    drawn = picture.read_text(encoding="utf-8")
    colours = {
        name: drawn.split(f"<title>gpu {name}</title>")[0].rpartition('fill="')[2][:7]
        for name in ("0.0: h100", "2.7: h100", "3.0: a100")
    }
    assert colours["0.0: h100"] == colours["2.7: h100"] != colours["3.0: a100"]
    assert "nic 1.3 - leaf 0: 12.5 GB/s" in drawn


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["show"], "needs a name or a file"),
        (["show", "h10"], "did you mean 'h100'?"),
        (["list", "h100"], "takes neither a cluster nor --nodes"),
        (["show", "h100", "--nodes", "-1"], "-1 nodes were asked for"),
        (["draw", "h100"], "invalid choice"),
    ],
)
def test_mistakes(capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    """Exit code 2 and what would be right."""
    assert main(["cluster", *arguments]) == 2
    assert message in capsys.readouterr().err
