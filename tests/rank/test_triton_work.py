"""What a block of a Triton kernel does, by the code that Triton makes first."""

from __future__ import annotations

import pytest
from ttir import HEAD, STORE, TAIL, access, loop

from phantora_py.rank.triton_work import block_work
from sim_server.kernels.blocks import over_blocks

BRANCH = """\
      %first = scf.if CONDITION -> (tensor<2048xf32>) {
THEN        scf.yield %zeros : tensor<2048xf32>
      } else {
ELSE        scf.yield %so_far : tensor<2048xf32>
      }
"""
AGAIN = access("x", how="evict_last")
ARGUMENT = 3  # %n
TILE = 2048 * 2


def branch(condition: str, then: str, other: str = "") -> str:
    """Two ways."""
    return BRANCH.replace("CONDITION", condition).replace("THEN", then).replace("ELSE", other)


def masked(limit: str) -> str:
    """A load of the elements below a limit."""
    return f"""\
      %begin = arith.muli %row, %c2048_i32 : i32
      %begins = tt.splat %begin : i32 -> tensor<2048xi32>
      %place = arith.addi %begins, %range : tensor<2048xi32>
      %limits = tt.splat {limit} : i32 -> tensor<2048xi32>
      %mask = arith.cmpi slt, %place, %limits : tensor<2048xi32>
""" + access("x")


def moved(body: str, n: int = 0, blocks: int = 1, columns: int = 1) -> float | None:
    """By all blocks, in bytes."""
    work = block_work(HEAD + body + TAIL)
    return over_blocks(work.bytes, {ARGUMENT: n}, (blocks, columns, 1)) if work else None


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(loop(access("x")) + STORE, 5000 * 2 + 4, id="to the loop's end"),
        pytest.param(access("x") + access("y") + STORE, 2 * TILE + 4, id="no loop"),
        pytest.param(loop(AGAIN) + loop(access("y")), 5000 * 2, id="kept for the next loop"),
        pytest.param(loop(access("x")) + loop(access("y")), 2 * 5000 * 2, id="not kept"),
        pytest.param(loop(AGAIN + access("y")), 2 * 5000 * 2, id="another place in one loop"),
        pytest.param(
            AGAIN + AGAIN.splitlines()[-1].replace("%x =", "%y =") + "\n", TILE, id="the same place"
        ),
        pytest.param(
            loop(access("x") + access("scale", "%w", "%at")), 5000 * 2, id="weights of all rows"
        ),
        pytest.param(
            loop("") + access("x") + access("y", index="%sum"), 2 * TILE, id="where a loop says"
        ),
        pytest.param(
            access("x") + access("y", index="%n").replace("%mask", "%start"), 2 * TILE, id="masked"
        ),
        pytest.param(loop(access("x") + branch("%is_first", "")), 5000 * 2, id="a branch"),
        pytest.param(branch("%is_it", access("x"), access("x") + access("y")), 2 * TILE, id="more"),
        pytest.param(branch("%is_it", access("x") + access("y")), 2 * TILE, id="or nothing"),
        pytest.param(loop(access("x"), end="%read"), None, id="a bound that is read"),
        pytest.param(access("x") + "%old = tt.atomic_rmw fadd, %p, %x : f32\n", None, id="atomic"),
        pytest.param(
            "%b = tt.make_tensor_ptr %in, [%n], [%row] : !tt.ptr<tensor<16x8xf16>>\n"
            "%x = tt.load %b {boundaryCheck = array<i32: 0>} : !tt.ptr<tensor<16x8xf16>>\n",
            16 * 8 * 2,
            id="a block by itself",
        ),
        pytest.param(
            "%x = tt.descriptor_load %d[%row, %n] : !tt.tensordesc<16x8xf32> -> tensor<16x8xf32>\n"
            "tt.descriptor_store %d[%row, %n], %x : !tt.tensordesc<16x8xf32>, tensor<16x8xf32>\n",
            2 * 16 * 8 * 4,
            id="by a descriptor",
        ),
        pytest.param("tt.store %out, %x : !tt.of_another_kind\n", None, id="of another kind"),
    ],
)
def test_bytes_of_a_block(body: str, expected: int | None) -> None:
    """Loops, masks, caches, branches; nothing is said where only the data decides how often."""
    assert moved(body) == expected


@pytest.mark.parametrize(
    "code",
    [
        "",
        "module {}",
        HEAD,
        HEAD + "    cf.br ^bb7\n" + TAIL,
        HEAD + "    %x = tt.splat : i32\n" + TAIL,
    ],
)
def test_code_of_another_form(code: str) -> None:
    """It tells nothing, or as much as it has; the program goes on."""
    assert block_work(code) in {None, block_work(HEAD + TAIL)}
    assert block_work(HEAD + TAIL + HEAD + access("x") + TAIL) == block_work(HEAD + TAIL)


def test_arguments_and_the_block_decide() -> None:
    """Ends of loops, masks and branches that depend on them."""
    assert moved(loop(access("x"), end="%n"), n=3000) == 3000 * 2
    assert moved(loop(access("x"), end="%n"), n=-1) == 0
    last = "      %end = arith.addi %row, %n : i32\n"
    assert moved(last + loop(access("x"), end="%end"), n=1000, blocks=3) == 2 * (3 * 1000 + 3)
    assert moved(masked("%n"), n=3000, blocks=2) == 3000 * 2
    assert moved(masked("%c5000_i32"), blocks=4) == 5000 * 2
    first = "      %is_it = arith.cmpi slt, %row, %n : i32\n"
    two_ways = first + branch("%is_it", access("x") + access("y"), access("x"))
    assert moved(two_ways, n=3, blocks=10) == TILE * (2 * 3 + 7)


def test_numbers_that_fall_are_no_range() -> None:
    """A mask of them is not known: all counts."""
    fall = masked("%n").replace("arith.addi %begins, %range", "arith.subi %begins, %range")
    assert fall != masked("%n")
    assert moved(fall, n=1, blocks=2) == 2 * TILE


def test_the_function_ends_in_several_places() -> None:
    """A label begins what is done only where a jump leads to it: the way that does more counts."""
    ways = (
        "    cf.cond_br %is_it, ^bb1, ^bb2\n  ^bb1:  // pred: ^bb0\n"
        + access("x")
        + "    tt.return\n  ^bb2:  // pred: ^bb0\n"
        + access("y")
        + access("z")
    )
    assert moved(access("x") + ways) == 3 * TILE
    around = (
        "    cf.br ^bb1\n  ^bb1:  // 2 preds: ^bb0, ^bb1\n    cf.cond_br %go, ^bb1, ^bb2\n  ^bb2:\n"
    )
    assert moved(around) is None


def test_what_blocks_have_in_common() -> None:
    """What a block loads whatever its place in a row of the grid, a row loads once."""
    columns = "    %column = tt.get_program_id y : i32\n"
    assert moved(columns + access("x"), blocks=4, columns=8) == 4 * TILE
    both = columns + "    %start_b = arith.addi %start, %column : i32\n"
    assert moved(both + access("x", index="%start_b"), blocks=4, columns=8) == 32 * TILE


def test_what_loops_load_again_and_compute() -> None:
    """Of rows that are gone through twice the second time; operations on elements."""
    base = "    %from = tt.addptr %in, %start : !tt.ptr<bf16>, i32\n"
    row = base + loop(access("x", "%from", "%at")) + loop(access("y", "%from", "%at"), end="%n")
    work = block_work(HEAD + row + TAIL)
    assert work is not None
    assert over_blocks(work.again, {ARGUMENT: 700}, (1, 1, 1)) == 1400
    assert not work.instructions
    tile = "tensor<2048xf32>"
    operations = f"%a = arith.addf %x, %x : {tile}\n%b = math.exp %a : {tile}\n"
    for function in ("expf", "erff"):
        named = f'{{libname = "", symbol = "__nv_{function}"}}'
        operations += f"%c = tt.extern_elementwise %b {named} : ({tile}) -> {tile}\n"
    work = block_work(HEAD + loop(operations, end="%n") + TAIL)
    assert work is not None
    assert over_blocks(work.instructions, {ARGUMENT: 100}, (1, 1, 1)) == 100 * (1 + 8 + 8 + 32)
    assert work.parameters == {ARGUMENT}


def product(number: str, how: str = "tf32") -> str:
    """Of 64 x 32 and 32 x 128 elements."""
    factors = f"tensor<64x32x{number}> * tensor<32x128x{number}>"
    return f"%d = tt.dot %x, %y, %z, inputPrecision = {how} : {factors} -> tensor<64x128xf32>\n"


@pytest.mark.parametrize(("number", "share"), [("bf16", 1), ("f32", 2), ("f8E4M3FN", 0.5)])
def test_products(number: str, share: float) -> None:
    """Counted in 16 bits; what takes another time by what it takes."""
    work = block_work(HEAD + loop(product(number), end="%n") + TAIL)
    assert work is not None
    assert over_blocks(work.flops, {ARGUMENT: 4096}, (1, 1, 1)) == 2 * 2 * 64 * 32 * 128 * share


def test_products_without_tensor_cores() -> None:
    """Nothing is told of them."""
    assert block_work(HEAD + product("f32", "ieee") + TAIL) is None
    assert block_work(HEAD + product("f64") + TAIL) is None


def test_what_one_block_loads_is_not_shared() -> None:
    """Nothing depends on which block it is: all that is loaded comes from memory."""
    code = HEAD.replace("tt.get_program_id x", "arith.constant 0") + loop(access("x")) + TAIL
    work = block_work(code)
    assert work is not None
    assert work.bytes == str(5000 * 2)
