"""What a Triton kernel moves and only reads, by the code that Triton makes first."""

from __future__ import annotations

import pytest

from phantora_py.rank.triton_code import block_bytes, only_read

HEAD = """\
module {
  tt.func public @kernel(%in: !tt.ptr<bf16> {tt.divisibility = 16 : i32}, %w: !tt.ptr<f32>, \
%out: !tt.ptr<f32>, %n: i32) attributes {noinline = false} {
    %c0_i32 = arith.constant 0 : i32
    %c2048_i32 = arith.constant 2048 : i32
    %c5000_i32 = arith.constant 5000 : i32
    %row = tt.get_program_id x : i32
    %start = arith.muli %row, %c5000_i32 : i32
    %range = tt.make_range {end = 2048 : i32, start = 0 : i32} : tensor<2048xi32>
"""
TAIL = '    tt.return\n  }\n}\n#loc3 = loc("/a/}{}/b.py":1:2)\n'


def loop(body: str, end: str = "%c5000_i32") -> str:
    """Over a row of 5,000 elements, 2,048 at a time."""
    return f"""\
    %sum = scf.for %at = %c0_i32 to {end} step %c2048_i32 iter_args(%so_far = %zeros) \
-> (tensor<2048xf32>)  : i32 {{
{body}      scf.yield %so_far : tensor<2048xf32>
    }} loc(#loc3)
"""


def access(name: str, of: str = "%in", index: str = "%start", how: str = "evict_first") -> str:
    """A load of 2,048 elements."""
    kind = "f32" if of == "%w" else "bf16"
    tensor = f"tensor<2048x!tt.ptr<{kind}>>"
    return f"""\
      %{name}_b = tt.splat {of} : !tt.ptr<{kind}> -> {tensor}
      %{name}_o = tt.splat {index} : i32 -> tensor<2048xi32>
      %{name}_p = tt.addptr %{name}_b, %{name}_o : {tensor}, tensor<2048xi32>
      %{name} = tt.load %{name}_p, %mask, %cst \
{{cachePolicy = #tt.cache_policy<cache_modifier = none, eviction_policy = {how}>}} : {tensor}
"""


STORE = """\
    %out_p = tt.addptr %out, %row : !tt.ptr<f32>, i32
    tt.store %out_p, %total : !tt.ptr<f32>
"""
BRANCH = """\
      %first = scf.if %is_first -> (tensor<2048xf32>) {
INNER        scf.yield %zeros : tensor<2048xf32>
      } else {
        scf.yield %so_far : tensor<2048xf32>
      }
"""
AGAIN = access("x", how="evict_last")


@pytest.mark.parametrize(
    ("body", "moved"),
    [
        pytest.param(loop(access("x")) + STORE, 5000 * 2 + 4, id="to the loop's end"),
        pytest.param(access("x") + access("y") + STORE, 2 * 4096 + 4, id="no loop"),
        pytest.param(loop(AGAIN) + loop(access("y")), 5000 * 2, id="kept for the next loop"),
        pytest.param(loop(access("x")) + loop(access("y")), 2 * 5000 * 2, id="not kept"),
        pytest.param(loop(AGAIN + access("y")), 2 * 5000 * 2, id="another place in one loop"),
        pytest.param(
            AGAIN + AGAIN.splitlines()[-1].replace("%x =", "%y =") + "\n", 4096, id="the same place"
        ),
        pytest.param(
            loop(access("x") + access("scale", "%w", "%at")), 5000 * 2, id="weights of all rows"
        ),
        pytest.param(
            loop("") + access("x") + access("y", index="%sum"),
            2 * 4096,
            id="where a loop says",
        ),
        pytest.param(
            access("x") + access("y", index="%n").replace("%mask", "%start"), 2 * 4096, id="masked"
        ),
        pytest.param(loop(access("x") + BRANCH.replace("INNER", "")), 5000 * 2, id="a branch"),
        pytest.param(loop(BRANCH.replace("INNER", access("x"))), None, id="loads in a branch"),
        pytest.param(loop(access("x"), end="%n"), None, id="a bound that is an argument"),
        pytest.param(access("x") + "      %d = tt.dot %x, %x, %z : t", None, id="a product"),
    ],
)
def test_bytes_of_a_block(body: str, moved: int | None) -> None:
    """Loops of constant length, masks, caches; nothing is said where the data decides."""
    assert block_bytes(HEAD + body + TAIL) == moved


def test_what_one_block_loads_is_not_shared() -> None:
    """Nothing depends on which block it is: all that is loaded comes from memory."""
    code = HEAD.replace("tt.get_program_id x", "arith.constant 0") + loop(access("x")) + TAIL
    assert block_bytes(code) == 5000 * 2


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
