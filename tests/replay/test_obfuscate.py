"""`phantora replay obfuscate`: nothing planted is left, and what is left still runs."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from phantora_py.replay.container import Benchmark, new_head, read_benchmark, write_benchmark
from phantora_py.replay.obfuscate import obfuscate
from sim_server.errors import UsageError

pytestmark = pytest.mark.torch

SECRETS = (
    *("acme", "hydra", "/home/ada/train.py", "node17.example.org", "--password", "MoonshotOptim"),
    *("pg_of_project_x", "swordfish"),
)
SALT, OTHER_SALT = b"a" * 32, b"b" * 32
_LIMIT_S = 120


def planted() -> Benchmark:
    """Two ranks that multiply, reduce and call kernels of their own, with secrets in each text."""
    import torch  # noqa: PLC0415

    schemas = [
        str(torch.ops.aten.mm.default._schema),
        str(torch.ops.c10d.allreduce_.default._schema),
        str(torch.ops.aten.gelu.default._schema).replace("none", "swordfish"),
        "acme::hydra(Tensor x, str path) -> Tensor",
        str(torch.ops.profiler._record_function_enter_new.default._schema),
        str(torch.ops.aten.linalg_vector_norm.default._schema),
        str(torch.ops.aten.embedding.default._schema),
        str(torch.ops.aten.div.Tensor_mode._schema),
    ]

    def op(schema: int, args: list[Any], outs: list[Any], **told: Any) -> dict[str, Any]:
        return {"do": "op", "thread": 4711, "schema": schema, "args": args, "outs": outs, **told}

    def tensor(number: int) -> dict[str, Any]:
        return {"tensor": number, "/home/ada/train.py": "swordfish"}

    kernel = {"do": "proxy", "thread": 4711, "name": "acme_hydra_kernel", "launches": 2}
    matrices = [[number, 0, "float", [8, 8], [8, 1]] for number in range(4)]
    versions: list[dict[str, Any]] = [
        {"bytes": 256, "device": "cuda", "dtype": "float", "external": {"from": "node17.acme"}}
        for _ in matrices
    ]
    bounds = {"range": [0, 7], "column": "pg_of_project_x"}
    versions.append({"bytes": 32, "device": "cuda", "dtype": "long int", "external": bounds})
    matrices.append([4, 0, "long int", [4], [1]])
    versions.append({"bytes": 128, "device": "cuda", "dtype": "float"})
    matrices.append([5, 0, "float", [4, 8], [8, 1]])
    rank = {
        "schemas": schemas,
        "tensors": matrices,
        "versions": versions,
        "events": [
            op(4, ["acme train --password", None], [None]),
            op(0, [tensor(0), tensor(1)], [tensor(2)]),
            op(2, [tensor(2)], [tensor(3)]),
            op(6, [tensor(0), tensor(4)], [tensor(5)]),
            op(7, [tensor(2), tensor(1), "floor"], [tensor(3)]),
            op(7, [tensor(2), tensor(1), "hydra"], [tensor(3)]),
            op(1, [[tensor(3)], None, None, None, False, -1], [None], group="pg_of_project_x"),
            op(3, [tensor(3), "/home/ada/train.py"], [tensor(1)]),
            {"do": "stream", "thread": 4711, "call": "record", "event": 90210, "stream": 0},
            kernel | {"args": [tensor(1), "node17.example.org", 3], "outs": [tensor(2)]},
            {"do": "mark", "name": "MoonshotOptim.step", "free": [2]},
        ],
    }
    groups = {"0": [0, 1], "pg_of_project_x": [0, 1]}
    return Benchmark(new_head(2, groups) | {"has_streams": True}, [rank, rank])


def texts(value: Any) -> Iterator[str]:
    """All texts, also keys."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, one in value.items():
            yield name
            yield from texts(one)
    elif isinstance(value, list):
        for one in value:
            yield from texts(one)


def unpacked(path: Path) -> bytes:
    """All that an archive says, compressed and not."""
    with zipfile.ZipFile(path) as archive:
        members = [one.filename.encode() + archive.read(one) for one in archive.infolist()]
    return b"\n".join([path.read_bytes(), *members])


@pytest.mark.parametrize("level", [1, 2])
def test_no_secret_is_left(tmp_path: Path, level: int) -> None:
    before, after = tmp_path / "a.bench", tmp_path / "b.bench"
    write_benchmark(planted(), before)
    assert all(one.encode() in unpacked(before) for one in SECRETS)
    command = ["phantora_py", "replay", "obfuscate", str(before), "-o", str(after)]
    done = subprocess.run(
        [sys.executable, "-P", "-m", *command, "--level", str(level)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "proxy of acme::hydra: 2" in done.stdout
    left = unpacked(after).lower()
    assert [one for one in (*SECRETS, "4711", "90210") if one.lower().encode() in left] == []
    assert read_benchmark(after).head["ranks"] == 2


def test_levels_nest() -> None:
    whole = planted()
    first, _ = obfuscate(whole, 1, SALT)
    second, replaced = obfuscate(whole, 2, SALT)
    assert replaced == {
        **{"acme::hydra": 2, "aten::div.Tensor_mode": 2},
        "profiler::_record_function_enter_new": 2,
    }
    assert {*texts(second.ranks)} <= {*texts(first.ranks)}
    for one, two in zip(first.ranks[0]["events"], second.ranks[0]["events"], strict=True):
        assert {name: two[name] for name in two if name != "args"} == {
            name: one[name] for name in one if name != "args"
        }
    assert first.ranks[0]["events"][9]["args"][2] == 3
    assert second.ranks[0]["events"][9]["args"] == [{"tensor": 1}, None, None]


def test_level_2_replaces_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Operators of known libraries stay at level 1 where they are installed."""
    import torch  # noqa: PLC0415

    library = torch.library.Library("torchvision", "FRAGMENT")
    library.define("phantora_test(Tensor x) -> Tensor")
    monkeypatch.setitem(sys.modules, "torchvision", sys)
    whole = planted()
    whole.ranks[0]["schemas"][3] = str(torch.ops.torchvision.phantora_test.default._schema)
    first, _ = obfuscate(whole, 1, SALT)
    second, replaced = obfuscate(whole, 2, SALT)
    one, two = (told.ranks[0]["events"][7] for told in (first, second))
    assert (one["do"], two["do"]) == ("op", "proxy")
    assert replaced["torchvision::phantora_test"] == 2
    assert "torchvision" not in json.dumps(second.ranks)


def test_two_salts_share_no_token() -> None:
    whole = planted()
    one, two = ({*texts(obfuscate(whole, 1, salt)[0].ranks)} for salt in (SALT, OTHER_SALT))
    assert len(one - two) == len(two - one) == 10
    assert not any(re.search("[0-9a-f]{16}", word) for word in one & two)
    assert obfuscate(whole, 1, SALT)[0] == obfuscate(whole, 1, SALT)[0]


@pytest.mark.parametrize("field", ["dtype", "device"])
def test_unknown_types_and_devices_are_refused(field: str) -> None:
    whole = planted()
    whole.ranks[0]["versions"][0][field] = "acme"
    with pytest.raises(UsageError, match="'acme', which is not known and might tell a name"):
        obfuscate(whole, 1, SALT)


@pytest.mark.timeout(_LIMIT_S + 30)
@pytest.mark.parametrize("level", [1, 2])
def test_it_runs_on_a_cpu_with_gloo(tmp_path: Path, level: int) -> None:
    path = tmp_path / "b.bench"
    write_benchmark(obfuscate(planted(), level, SALT)[0], path)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    told = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": "2"}
    words = ["phantora_py", "replay", "run", str(path), "--device", "cpu"]
    ranks = [
        subprocess.Popen(
            [sys.executable, "-P", "-m", *words],
            env=os.environ | told | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        said = [one.communicate(timeout=_LIMIT_S) for one in ranks]
    finally:
        for one in ranks:
            one.kill()
    assert [one.returncode for one in ranks] == [0, 0], said
    assert said[0][0].startswith("replayed 11 events a rank on cpu")
