"""What a rank writes down of its launches for a GPU executor."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rank_runs import RankRun

from sim_server.gpu import load_gpu
from sim_server.processes.executor import launch_name

GPU = load_gpu("h100").shim_keys()
SETTINGS = {**GPU, "launches": "1"}


def kept(folder: Path) -> list[dict[str, Any]]:
    """All launches, in the order of their grids; each is in the file that the server looks for."""
    found = []
    for path in folder.glob("launches/*"):
        if path.suffix != ".image":
            found.append(json.loads(path.read_text()))
            assert path.name == launch_name(found[-1]["signature"])
    return sorted(found, key=lambda launch: str(launch["signature"]["grid"]))


def test_a_kernel_of_a_library(tmp_path: Path) -> None:
    """Where it is, its arguments, the allocations that they reach, also through a list on the
    device, and what is known to be there. An argument ends where the next one begins.
    """
    run = RankRun("launches_rank.py", "library", tmp_path, settings=SETTINGS)
    (launch,) = kept(tmp_path)
    (told,) = run.results
    assert launch["signature"]["name"] == "_Z4work1SPfj"
    assert Path(launch["library"]).name.startswith("libc.so")
    assert launch["offset"] > 0
    structure, pointer, count = map(bytes.fromhex, launch["parameters"])
    assert structure == b"".join(value.to_bytes(8, "little") for value in (5, told["pointers"], 6))
    assert pointer == (told["data"] + 64).to_bytes(8, "little")
    assert count[:4] == (1000).to_bytes(4, "little")
    regions = dict(map(tuple, launch["regions"]))
    assert {name: regions[told[name]] for name in ("data", "listed", "pointers")} == {
        **{"data": 1 << 20, "listed": 4096, "pointers": 16}
    }
    contents = dict(map(tuple, launch["contents"]))
    assert bytes.fromhex(contents[told["pointers"]]) == (
        (told["listed"] + 16).to_bytes(8, "little") + (7).to_bytes(8, "little")
    )


def test_a_kernel_of_a_code_object(tmp_path: Path) -> None:
    """The code object is kept once; arguments have the sizes that it tells, or are one buffer."""
    (told,) = RankRun("launches_rank.py", "module", tmp_path, settings=SETTINGS).results
    each, packed = kept(tmp_path)
    address = told["data"].to_bytes(8, "little").hex()
    assert (each["packed"], each["parameters"]) == (0, [address, "40000000"])
    assert (packed["packed"], packed["parameters"]) == (1, [address + "41000000"])
    assert each["regions"] == packed["regions"] == [[told["data"], 4096]]
    image = tmp_path / "launches" / f"{each['image']}.image"
    assert image.read_bytes() == told["image"].encode() + b"\0"


def test_a_run_without_an_executor_keeps_nothing(tmp_path: Path) -> None:
    """Not even the folder."""
    RankRun("launches_rank.py", "library", tmp_path, settings=GPU)
    assert not (tmp_path / "launches").exists()
