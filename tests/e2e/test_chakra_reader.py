"""Chakra's own tools read what we write.

nox -s chakra
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
from phantora_runs import Run

from phantora_py.cli import main
from phantora_py.traces.folder import read_folder

pytestmark = [
    pytest.mark.torch,
    pytest.mark.chakra,
    pytest.mark.skipif(
        importlib.util.find_spec("chakra") is None,
        reason="Chakra is not installed: nox -s chakra",
    ),
]


def read_by_chakra(path: Path) -> tuple[Any, list[Any]]:
    """Metadata and nodes, as Chakra's library gives them."""
    from chakra.schema.protobuf.et_def_pb2 import GlobalMetadata, Node  # noqa: PLC0415
    from chakra.src.third_party.utils.protolib import decodeMessage, openFileRd  # noqa: PLC0415

    file, metadata, nodes = openFileRd(str(path)), GlobalMetadata(), []
    with file:
        assert decodeMessage(file, metadata)
        node = Node()
        while decodeMessage(file, node):
            nodes.append(Node.FromString(node.SerializeToString()))
        assert file.read() == b""
    return metadata, nodes


def test_files_are_read_whole(fsdp: Run, tmp_path: Path) -> None:
    """Every node is complete, depends on nodes that are there and come before it, and survives a
    round trip through the other library.
    """
    folder = tmp_path / "trace"
    assert main(["report", str(fsdp.path), "--chakra", str(folder)]) == 0
    ours = read_folder(folder)
    for rank, trace in enumerate(ours.traces):
        metadata, nodes = read_by_chakra(trace.path)
        assert metadata.version == "0.0.4"
        assert {one.name: one.int64_val for one in metadata.attr}["rank"] == rank
        known: set[int] = set()
        for node in nodes:
            assert node.name
            assert {*node.ctrl_deps, *node.data_deps} <= known
            known.add(node.id)
        assert len(known) == len(nodes) == len(trace.nodes)
        for theirs, own in zip(nodes, trace.nodes, strict=True):
            assert theirs.SerializeToString(deterministic=True) == own.SerializeToString(
                deterministic=True
            )
