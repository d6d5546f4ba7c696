"""Pieces of the code that Triton makes first."""

from __future__ import annotations

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
      %{name}_i = arith.addi %{name}_o, %range : tensor<2048xi32>
      %{name}_p = tt.addptr %{name}_b, %{name}_i : {tensor}, tensor<2048xi32>
      %{name} = tt.load %{name}_p, %mask, %cst \
{{cachePolicy = #tt.cache_policy<cache_modifier = none, eviction_policy = {how}>}} : {tensor}
"""


STORE = """\
    %out_p = tt.addptr %out, %row : !tt.ptr<f32>, i32
    tt.store %out_p, %total : !tt.ptr<f32>
"""
