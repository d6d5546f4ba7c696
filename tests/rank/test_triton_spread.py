"""What a Triton kernel loads for several elements comes from memory once."""

from __future__ import annotations

import re

import pytest
from ttir import HEAD, TAIL

from phantora_py.rank.triton_work import block_work
from sim_server.kernels.blocks import over_blocks

BLOCKS, ELEMENTS = 10, 2048
ALL = BLOCKS * ELEMENTS
INTEGERS = "tensor<2048xi32>"
POINTERS = "tensor<2048x!tt.ptr<f32>>"
PLACES = f"""\
      %begin = arith.muli %row, %c2048_i32 : i32
      %begins = tt.splat %begin : i32 -> {INTEGERS}
      %place = arith.addi %begins, %range : {INTEGERS}
      %argument = tt.splat %n : i32 -> {INTEGERS}
"""
LOAD = f"""\
      %all = tt.splat %w : !tt.ptr<f32> -> {POINTERS}
      %each = tt.addptr %all, %at : {POINTERS}, {INTEGERS}
      %loaded = tt.load %each : {POINTERS}
"""
SIGNS = {"+": "addi", "*": "muli", "/": "divsi", "%": "remsi", "-": "subi"}


def calculated(*steps: str) -> str:
    """Code for steps as "at = place % 256"."""
    lines = []
    for step in steps:
        result, left, sign, right = re.fullmatch(r"(\w+) = (\w+) (.) (\w+)", step).groups()  # type: ignore[union-attr]
        if right.isdecimal():
            lines.append(f"%c{right} = arith.constant dense<{right}> : {INTEGERS}")
            right = f"c{right}"
        lines.append(f"%{result} = arith.{SIGNS[sign]} %{left}, %{right} : {INTEGERS}")
    return "".join(f"      {line} loc(#loc3)\n" for line in lines)


@pytest.mark.parametrize(
    ("steps", "loaded"),
    [
        pytest.param(["at = place % 256"], 256, id="one for each channel"),
        pytest.param(["at = place % 8192"], 8192, id="of more channels than a block has elements"),
        pytest.param(["at = place % 40960"], ALL, id="more than there are elements"),
        pytest.param(["at = place / 64"], ALL / 64, id="one for each row"),
        pytest.param(["row = place / 256", "at = row % 49"], 49, id="of rows that come again"),
        pytest.param(
            [
                "channel = place % 256",
                "image = place / 1024",
                "of = image * 256",
                "at = channel + of",
            ],
            256 * ALL / 1024,
            id="channels of each image",
        ),
        pytest.param(
            ["row = place % 512", "many = row * 64", "at = many % 4096"], 64, id="of every 64th"
        ),
        pytest.param(["at = place + 7"], ALL, id="all"),
        pytest.param(["at = place % 4194304"], ALL, id="gone before they come again"),
        pytest.param(["row = place / 256", "at = row + place"], ALL, id="of two that go together"),
        pytest.param(["row = place % 64", "at = row * argument"], 64, id="times an argument"),
        pytest.param(["at = place - argument"], ALL, id="another operation"),
        pytest.param(["at = place / 0"], ALL, id="by zero"),
    ],
)
def test_what_is_loaded_for_several_elements(steps: list[str], loaded: float) -> None:
    """Counts once, as far as it is known."""
    work = block_work(HEAD + PLACES + calculated(*steps) + LOAD + TAIL)
    assert work is not None
    found = over_blocks(work.bytes, {3: 5}, (BLOCKS, 1, 1))
    assert found == pytest.approx(4 * loaded)


def test_what_the_data_says_may_be_anywhere() -> None:
    """Places that are loaded themselves."""
    index = LOAD.replace("%loaded", "%places").replace("f32", "i32").replace("%at", "%place")
    work = block_work(HEAD + PLACES + index + LOAD.replace("%at", "%places") + TAIL)
    assert work is not None
    assert over_blocks(work.bytes, {}, (BLOCKS, 1, 1)) == 4 * 2 * ALL
