"""Cluster descriptions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import sim_server.cluster
from sim_server.cluster import Cluster, Routing, builtin_names, load_cluster
from sim_server.errors import UsageError
from sim_server.gpu import load_gpu


def write(tmp_path: Path, text: str) -> str:
    path = tmp_path / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def message_of(tmp_path: Path, text: str) -> str:
    """The error for a file with this text, without the file's folder."""
    with pytest.raises(UsageError) as error:
        load_cluster(write(tmp_path, text))
    assert error.value.exit_code == 2
    return str(error.value).replace(f"{tmp_path}/", "")


@pytest.mark.parametrize("name", ["a100", "b200", "gb200", "h100", "h200"])
def test_builtin_cluster_is_complete(name: str) -> None:
    """Each built-in cluster has a NIC for each GPU of a node, 72 or 8, and survives JSON."""
    cluster = load_cluster(name)
    assert (cluster.name, cluster.gpu) == (name, name)
    assert cluster.nic.per_node == cluster.gpus_per_node == (72 if name == "gb200" else 8)
    assert Cluster.from_dict(json.loads(json.dumps(cluster.to_dict()))) == cluster


def test_builtin_clusters_are_those_of_the_manual() -> None:
    """There are five, and every number in them has a source or the word assumed."""
    assert builtin_names() == ["a100", "b200", "gb200", "h100", "h200"]
    folder = Path(sim_server.cluster.__file__).parent / "builtin"
    for path in folder.glob("*.toml"):
        for line in path.read_text(encoding="utf-8").splitlines():
            if '"' in line and any(digit in line.split("#")[0] for digit in "0123456789"):
                named = line.split("=")[0].strip() in ("name", "gpu")
                assert named or "#" in line, f"{path.name}: {line} has no source"


def test_file_overrides_its_base(tmp_path: Path) -> None:
    """A file says only what differs; its name is the file's unless it has one."""
    path = write(
        tmp_path,
        'base = "h100"\nnodes = 16\n[fabric]\nrouting = "ecmp"\noversubscription = 2\n'
        '[nic]\nbandwidth = "200 Gb/s"\n',
    )
    cluster = load_cluster(path)
    assert (cluster.name, cluster.gpu, cluster.nodes) == ("mine", "h100", 16)
    assert cluster.fabric.routing is Routing.ECMP
    assert cluster.fabric.oversubscription == 2.0
    assert cluster.nic.bandwidth_bytes_per_s == 25 * 10**9
    assert cluster.nvlink == load_cluster("h100").nvlink


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            'base = "h100"\n[nvlink]\nbandwith = "1 GB/s"\n',
            "cluster mine.toml: unknown key 'nvlink.bandwith'; did you mean 'nvlink.bandwidth'?",
        ),
        (
            'base = "h100"\ngpu_per_node = 4\n',
            "cluster mine.toml: unknown key 'gpu_per_node'; did you mean 'gpus_per_node'?",
        ),
        (
            'base = "h100"\n[nvlink]\nxyzzy = 4\n',
            "cluster mine.toml: unknown key 'nvlink.xyzzy'; known here: bandwidth, latency",
        ),
        (
            'base = "h100"\n[nic]\nlatency = "2 GB"\n',
            "cluster mine.toml: nic.latency: 'GB' is not a unit of time; use one of ns, us, ms, s",
        ),
        (
            'base = "h100"\ngpus_per_node = 0\n',
            "cluster mine.toml: gpus_per_node: 0 is not a count; write a whole number of at "
            "least 1",
        ),
        (
            'base = "h100"\nnodes = true\n',
            "cluster mine.toml: nodes: True is not a count; write a whole number of at least 1",
        ),
        (
            'base = "h100"\n[fabric]\noversubscription = 0.5\n',
            "cluster mine.toml: fabric.oversubscription: 0.5 is not a ratio; write a number of at "
            "least 1, as 2.0 for 2:1",
        ),
        (
            'base = "h100"\n[fabric]\nrouting = "random"\n',
            "cluster mine.toml: fabric.routing: 'random' is not known; use one of adaptive, ecmp, "
            "single",
        ),
        (
            'base = "h100"\ngpu = ""\n',
            "cluster mine.toml: gpu: '' is not a name; write a text in quotes",
        ),
        (
            'base = "h100"\n[nic]\nper_node = 3\n',
            "cluster mine.toml: nic.per_node = 3 does not divide gpus_per_node = 8; every NIC "
            "serves the same number of GPUs",
        ),
        (
            'base = "h100"\n[fabric]\nleaf_downlinks = 12\n',
            "cluster mine.toml: fabric.leaf_downlinks = 12 is not a multiple of nic.per_node = 8; "
            "all NICs of a node are on one leaf",
        ),
        (
            'base = "h1000"\n',
            "cluster mine.toml: base = 'h1000' is not a built-in cluster; use one of a100, b200, "
            "gb200, h100, h200, or the path of a file beside this one",
        ),
        (
            'gpu = "h100"\n',
            "cluster mine.toml: 'gpus_per_node' is missing; add it, or start from a built-in "
            'cluster with base = "h100"',
        ),
        (
            'base = "h100"\nnic = 4\n',
            "cluster mine.toml: 'nic' is a table; write its keys under [nic]",
        ),
    ],
)
def test_wrong_file_says_what_is_right(tmp_path: Path, text: str, message: str) -> None:
    """The message names the file, the key, and what would be right."""
    assert message_of(tmp_path, text) == message


def test_what_no_machine_has_the_memory_for(tmp_path: Path) -> None:
    """Counts that are possible one by one may not be so together; 27,000 nodes are."""
    fabric = (
        'base = "a100"\nnic.per_node = 2\n'
        '[fabric]\ntopology = "dragonfly"\ngroups = 3\nrouters = 2\nrouting = "single"\n'
        "router_nics = {}\n"
    )
    load_cluster(write(tmp_path, fabric.format(9000)))
    assert "a cluster of 393222 parts or more is not simulated" in message_of(
        tmp_path, fabric.format(65535)
    )


def test_broken_toml_is_a_usage_error(tmp_path: Path) -> None:
    """A syntax error names the file and the line."""
    message = message_of(tmp_path, "gpu = \n")
    assert message.startswith("cluster mine.toml: is not TOML: Invalid value (at line 1")


def test_unknown_cluster_names_the_nearest() -> None:
    """A misspelt name is met with the right ones."""
    with pytest.raises(UsageError) as error:
        load_cluster("h10")
    assert str(error.value) == (
        "there is no cluster 'h10'; did you mean 'h100'? Built in are a100, b200, gb200, h100, "
        "h200; anything else is the path of a TOML file"
    )


def test_capitals_name_the_same(tmp_path: Path) -> None:
    """Of clusters, of what they start from, and of GPUs, as data sheets write them."""
    assert load_cluster("H100") == load_cluster("h100")
    text = 'name = "capitals"\nbase = "H100"\ngpu = "H100-PCIe"\n'
    cluster = load_cluster(write(tmp_path, text))
    assert cluster.gpu == "h100-pcie"
    assert load_gpu("H200") == load_gpu("h200")


def test_base_may_be_a_file(tmp_path: Path) -> None:
    """A file starts from another beside it; one that starts from itself is refused."""
    (tmp_path / "below.toml").write_text('base = "a100"\nnodes = 4\n', encoding="utf-8")
    cluster = load_cluster(write(tmp_path, 'base = "below.toml"\n[nic]\ntransport = "efa"\n'))
    assert (cluster.name, cluster.gpu, cluster.nodes) == ("mine", "a100", 4)
    assert cluster.nic.transport == "efa"
    assert "is its own base" in message_of(tmp_path, 'base = "mine.toml"\n')


@pytest.mark.parametrize(
    ("path", "told"),
    [("mine.toml", "there is no such file"), ("folder/mine", "there is no such file")],
)
def test_a_missing_file_is_called_a_file(path: str, told: str) -> None:
    """What has a suffix or a folder is no name of a built-in cluster."""
    with pytest.raises(UsageError, match=f"cluster {path}: {told}"):
        load_cluster(path)


def test_a_folder_is_no_cluster(tmp_path: Path) -> None:
    """It is there, and it is no file."""
    with pytest.raises(UsageError, match="is no regular file; name a TOML file"):
        load_cluster(str(tmp_path))


def test_protocols_between_nodes_are_nccls_with_simple(tmp_path: Path) -> None:
    """In its order; a list without Simple, or of others, is refused."""
    cluster = load_cluster(write(tmp_path, 'base = "a100"\n[nic]\nprotocols = ["Simple", "LL"]\n'))
    assert cluster.nic.protocols == ("LL", "Simple")
    assert Cluster.from_dict(json.loads(json.dumps(cluster.to_dict()))) == cluster
    for wrong in ('["LL"]', '["Simple", "TCP"]', '"Simple"'):
        with pytest.raises(UsageError, match='with "Simple" among them'):
            load_cluster(write(tmp_path, f'base = "a100"\n[nic]\nprotocols = {wrong}\n'))
