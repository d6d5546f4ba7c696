"""What a Triton kernel only reads, by the code that Triton makes first."""

from __future__ import annotations

import pytest
from ttir import HEAD, STORE, TAIL, access, loop

from phantora_py.rank.triton_code import only_read


def through(use: str) -> str:
    """The code does this with a pointer that it loads from, too."""
    return HEAD + access("x") + f"    {use}\n" + STORE + TAIL


@pytest.mark.parametrize(
    ("code", "numbers"),
    [
        (through("%same = arith.addi %row, %row : i32"), [0, 1]),
        (HEAD + loop(access("x")) + access("y", of="%w") + STORE + TAIL, [0, 1]),
        (through("tt.store %x_p, %x, %mask : tensor<2048x!tt.ptr<bf16>>"), [1]),
        (
            through("%old = tt.atomic_rmw fadd, relaxed, gpu, %in, %v : (!tt.ptr<bf16>) -> bf16"),
            [1],
        ),
        (through("%either = arith.select %is_first, %in, %w : !tt.ptr<bf16>"), []),
        (through("tt.store %out, %in : !tt.ptr<bf16>"), [1]),
        (through("%other = tt.load %x_p, %mask, %w : tensor<2048x!tt.ptr<bf16>>"), []),
        (through("%far = tt.int_to_ptr %n : i64 -> !tt.ptr<bf16>"), []),
        (through("%kept = tt.ptr_to_int %in : !tt.ptr<bf16> -> i64"), []),
        (through("tt.call @other(%n) : (i32) -> ()"), []),
        (HEAD.replace("%n: i32", "%n: !tt.tensordesc<tensor<64xbf16>>") + STORE + TAIL, []),
        (HEAD.replace("%n: i32", "%n: !tt.ptr<!tt.ptr<f32>>") + STORE + TAIL, []),
        (HEAD + STORE + TAIL + HEAD + TAIL, []),
        ("", []),
    ],
)
def test_what_is_only_read(code: str, numbers: list[int]) -> None:
    """A pointer that the code does anything else with may be written through."""
    assert only_read(code) == numbers
