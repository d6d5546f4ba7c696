"""What a block of a Triton kernel moves and computes, by the code that Triton makes first (.ttir).

How often a loop runs, and how much of a tile a mask leaves, may depend on arguments and on which
block it is. All is told as expressions, which the models evaluate for each launch
(sim_server/kernels/blocks.py).
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import NamedTuple

from .triton_spread import SAME, Spread, spread_of
from .triton_values import Known, Mask, Sum, Tile, Value, calculated, either, of_two, text

MOST_PARAMETERS = 64
"""Of a kernel, that the shim is told of: a bit each."""
_MOST_ARGUMENTS, _LONGEST = 24, 4000  # of expressions: different ones, characters
# What moves or multiplies in other ways than these, or as often as only the data says.
_OTHER_WAYS = re.compile(
    r"\btt\.(atomic|call|descriptor_(?!load|store)|dot_scaled|gather|histogram)|\bscf\.while\b"
)
_OPERATION = re.compile(
    r'(?:(?P<result>%\w+)(?::\d+)? = )?"?(?P<name>[a-z]+\.[\w.]+)"?(?P<rest>.*)'
)
_NAME = re.compile(r"%\w+")
_PARAMETER = re.compile(r"(%\w+): (i\d+)?")
_NUMBER = re.compile(r" (?:dense<)?(?:(-?\d+)>? :|(true)|false)")
_RANGE = re.compile(r"end = (\d+) : i32, start = (\d+) : i32")
_LOOP = re.compile(r" (%\w+) = (%\S+) to (%\S+) step (%\S+)")
_CARRIED = re.compile(r"(%\w+) = (?:%\S+?)[,)]")
# Pointers, pointers to blocks, or what a descriptor moves.
_MOVED = re.compile(r"(?P<extents>(?:\d+x)*)(?:!tt\.ptr<)?(?P<type>[a-z]+\d+\w*)>+( loc\(.*)?$")
_LOADS = ("tt.load", "tt.descriptor_load")
_STORES = ("tt.store", "tt.descriptor_store")
_FACTORS = re.compile(r": tensor<((?:\d+x)+)(\w+)> \* tensor<(?:\d+x)*(\d+)x\w+>")
# How long products take as against those in 16 bits; none is faster in other types of f32.
_PRODUCT_TIMES = {"f8": 0.5, "i8": 0.5, "f16": 1.0, "bf16": 1.0, "f32": 2.0}
_FLOATS = re.compile(r"tensor<((?:\d+x)+)b?f\d")
_LABEL = re.compile(r"\^(\w+)")
# These make pointers of their first operand.
_MADE_OF = {"tt.addptr", "tt.bitcast", "tt.splat", "tt.broadcast", "tt.expand_dims"}
_COMPUTES = re.compile(r"arith\.(?!constant)|math\.|tt\.(reduce$|scan$|extern_elementwise)")
# Assumed: instructions of what is a short routine or left to the few special units, and of longer
# functions, as PyTorch's own GELU takes them on an H200.
_INSTRUCTIONS = {
    re.compile(r'"__nv_(f|exp|log|r?sqrt|rcp)\w*"|math\.(?!abs|fma)|arith\.(div|rem)f'): 8,
    re.compile(r"tt\.extern_elementwise"): 32,
}
# Inductor's word at a load for what is read again later.
_KEPT = "evict_last"


class BlockWork(NamedTuple):
    """Expressions of the kernel's arguments p0, p1, ..., the block's index x, y, z and the grid's
    blocks nx, ny, nz, with + - * / // %, comparisons, min and max. Empty: not known, or nothing.
    """

    bytes: str = ""
    """Loaded and stored."""
    again: str = ""
    """Of these: what a loop loads where one before it has."""
    instructions: str = ""
    """Of threads, on elements that are floating-point numbers."""
    flops: str = ""
    """Of products in 16 bits, and of as many as take as long as those in other types."""

    @property
    def parameters(self) -> set[int]:
        """Those whose arguments are in them."""
        return {int(number) for one in self for number in re.findall(r"\bp(\d+)", one)}


def block_work(code: str) -> BlockWork | None:
    """Of a block, by its .ttir; None where only the data says.

    A loop's last turn has what the loop's end leaves of it. Of two branches it is the one that does
    more, where the data decides. What is kept in the cache for a second look counts once; what
    blocks load in common, or for several elements, as often as it differs; what all load, as a
    norm's weights, not at all.
    """
    _, found, function = code.partition("tt.func ")
    if not found or _OTHER_WAYS.search(code):
        return None
    head, _, body = function.partition("\n")
    reader = _Reader(head, frozenset(re.findall(r"tt\.get_program_id (\w)", body)))
    try:
        for number, line in enumerate(body.splitlines(), 1):
            if line.startswith("#"):  # where it was written, which may be any text
                continue
            if reader.regions:  # until the function ends
                reader.read(number, line.strip())
        bytes_, *others = (reader.total(measure).value for measure in range(len(BlockWork._fields)))
        work = BlockWork(text(bytes_), *(text(one) if one else "" for one in others))
    except (_UnknownError, LookupError):  # code of another form lacks operands or labels
        return None
    counted = work.parameters
    is_small = len(counted) <= _MOST_ARGUMENTS and max(map(len, work)) <= _LONGEST
    return work if is_small and max(counted, default=0) < MOST_PARAMETERS else None


class _UnknownError(Exception):
    """Only the data says."""


def _sums() -> tuple[Sum, ...]:
    return tuple(Sum() for _ in BlockWork._fields)


@dataclass
class _Region:
    """Lines between braces, and what they do, in the order of `BlockWork`."""

    loop: int = 0
    """Line of the innermost loop around them."""
    turns: Value | None = 1
    """How often they run; None: only the data says."""
    is_branch: bool = False
    condition: Value | None = None
    instead: tuple[Sum, ...] = field(default_factory=_sums)
    """What the branch before this one does."""
    does: tuple[Sum, ...] = field(default_factory=_sums)

    def end(self, outer: _Region) -> None:
        """Add it to the region around it."""
        for mine, other, total in zip(self.does, self.instead, outer.does, strict=True):
            if self.is_branch:
                total.put(1, [either(self.condition, mine.value, other.value)])
            elif self.turns is not None:
                total.put_all(mine, self.turns)
            elif mine:
                raise _UnknownError


class _Reader:
    """Goes through a function line by line."""

    def __init__(self, head: str, axes: frozenset[str]) -> None:
        parameters = _PARAMETER.findall(head)
        self.known: dict[str, Known] = {
            name: f"p{number}" for number, (name, integer) in enumerate(parameters) if integer
        }
        self.spreads = dict.fromkeys((name for name, _ in parameters), Spread())
        # Of the grid: those that the code looks at, and those that a name may depend on.
        self.axes = axes
        self.axes_of: dict[str, frozenset[str]] = {}
        self.made_of: dict[str, str] = {}
        self.splats: set[str] = set()
        self.kept: dict[str, tuple[int, str]] = {}  # by origin of the pointer: loop and pointer
        self.loaded: dict[str, int] = {}  # by where a tile's addresses begin: by which loop first
        # Blocks of the function by label, and where they go on.
        self.label = ""
        self.blocks = {"": _Region()}
        self.next: dict[str, list[str]] = {"": []}
        self.regions = [self.blocks[""]]

    def read(self, number: int, line: str) -> None:
        """The next line, without the space before it."""
        if len(self.regions) == 1 and (label := _LABEL.match(line)):
            self.label = label[1]
            self.regions = [self.blocks.setdefault(self.label, _Region())]
            self.next.setdefault(self.label, [])
        elif (found := _OPERATION.match(line)) is not None:
            name, rest = found["name"], found["rest"]
            operands = _NAME.findall(rest.partition(" : ")[0])
            if found["result"] is not None:
                self._name(name, found["result"], operands, rest)
            if name in _LOADS or name in _STORES:
                self._move(name in _LOADS, operands, rest)
            elif name == "tt.dot":
                self._multiply(rest)
            elif name in {"cf.br", "cf.cond_br"}:
                self.next[self.label] = _LABEL.findall(rest)
            elif _COMPUTES.match(name) and (tensors := _FLOATS.findall(rest)):
                each = next((of for kind, of in _INSTRUCTIONS.items() if kind.search(line)), 1)
                self.regions[-1].does[2].put(max(map(_elements, tensors)) * each)
            if rest.endswith("{"):
                self.regions.append(self._region(number, name, rest))
        if line.startswith("}"):
            self._close(line)

    def total(self, measure: int, label: str = "", before: tuple[str, ...] = ()) -> Sum:
        """What a block of the function does and those after it; of several the most."""
        if label in before:
            raise _UnknownError  # a loop of jumps
        total = Sum(self.blocks[label].does[measure])
        ways = [self.total(measure, one, (*before, label)).value for one in self.next[label]]
        if ways:
            most = ways[0]
            for way in ways[1:]:
                most = calculated("max", most, way)
            total.put(1, [most])
        return total

    def _close(self, line: str) -> None:
        region = self.regions.pop()
        if line.endswith("{"):  # } else {
            after = _Region(region.loop, 1, region.is_branch, instead=region.does)
            after.condition = (
                None if region.condition is None else calculated("-", 1, region.condition)
            )
            self.regions.append(after)
        elif self.regions:
            region.end(self.regions[-1])

    def _region(self, number: int, name: str, rest: str) -> _Region:
        loop = self.regions[-1].loop
        if name == "scf.for" and (found := _LOOP.match(rest)):
            index, *bounds = found.groups()
            carried = _CARRIED.findall(rest.partition("iter_args")[2])
            self._forget(index, *carried)
            self.axes_of |= {index: self._axes(bounds)} | dict.fromkeys(carried, self.axes)
            begin, end, step = (self._value(one) for one in bounds)
            if begin is None or end is None or step is None:
                return _Region(number, None)
            length = calculated("max", 0, calculated("-", end, begin))
            return _Region(number, calculated("/", length, step))
        if name == "scf.if":
            return _Region(loop, 1, True, self._value(_NAME.findall(rest)[0]))
        return _Region(loop)

    def _name(self, name: str, result: str, operands: list[str], rest: str) -> None:
        """What an operation makes."""
        carries = name in {"scf.for", "scf.if"}
        self._forget(result)
        self.axes_of[result] = self.axes if carries else self._axes(operands)
        value: Known | None = None
        first, second = (self.known.get(one) for one in (*operands, "", "")[:2])
        if name == "arith.constant" and (number := _NUMBER.match(rest)):
            value = int(number[1] or bool(number[2]))
        elif name == "tt.make_range" and (bounds := _RANGE.search(rest)):
            value = Tile(int(bounds[2]), int(bounds[1]) - int(bounds[2]))
        elif name == "tt.get_program_id":
            value = rest.split(maxsplit=1)[0]
            self.axes_of[result] = frozenset({value})
        elif name == "tt.get_num_programs":
            value = f"n{rest.split(maxsplit=1)[0]}"
        elif name in SAME:
            value = first
        elif name.startswith("arith."):
            predicate = f" {rest.split(',', maxsplit=1)[0].strip()}" if name == "arith.cmpi" else ""
            value = of_two(name.removeprefix("arith.") + predicate, first, second)
        if value is not None:
            self.known[result] = value
        if (spread := self._spread(name, operands, value)) is not None:
            self.spreads[result] = spread
        if name in _MADE_OF:
            self.made_of[result] = operands[0]
        if name == "tt.splat":
            self.splats.add(result)

    def _spread(self, name: str, operands: list[str], value: Known | None) -> Spread | None:
        """`value`: of the operation."""
        if name == "arith.constant":
            return Spread() if value is not None else None
        if name == "tt.get_program_id":
            return Spread(1, frozenset({str(value)}), 1)
        if isinstance(value, Tile) and name == "tt.make_range":
            return Spread(value.extent, step=0 if value.start else 1)
        second = self.known.get(operands[1]) if len(operands) > 1 else None
        number = second if isinstance(second, int) else None
        return spread_of(name, [self.spreads.get(one) for one in operands], number)

    def _share(self, pointer: str, elements: int, axes: frozenset[str]) -> Value:
        """Of what blocks along these axes of the grid load, what is not loaded for another element,
        too.
        """
        spread = self.spreads.get(pointer)
        if spread is None:
            return 1
        share: Value = spread.number / elements
        for one in sorted(axes - spread.axes):
            share = calculated("/", share, f"n{one}")
        return calculated("min", 1, share)

    def _move(self, is_load: bool, operands: list[str], rest: str) -> None:
        if (moved := _MOVED.search(rest)) is None:
            raise _UnknownError  # blocks of another form
        pointer, loop = operands[0], self.regions[-1].loop
        origin = self._origin(pointer)
        kept_loop, kept_pointer = self.kept.get(origin, (loop, ""))
        if _KEPT in rest:
            self.kept.setdefault(origin, (loop, pointer))
        others = self.axes - self._axes(operands) if is_load else frozenset[str]()
        if is_load and (kept_loop != loop or kept_pointer == pointer):
            return
        if others and others == self.axes:
            return
        mask = self.known.get((*operands, "", "")[1 if is_load else 2])
        factors = [
            *(mask if isinstance(mask, Mask) else ()),
            *(f"1 / n{one}" for one in sorted(others)),
        ]
        elements = _elements(moved["extents"] or "")
        if is_load:
            factors.append(self._share(pointer, elements, self._axes(operands)))
        bits = re.search(r"\d+", moved["type"])
        size = elements * max(1.0, int(bits[0]) / 8 if bits else 1.0)
        moves, again, *_ = self.regions[-1].does
        moves.put(size, factors)
        if is_load and self.loaded.setdefault(self._start(pointer), loop) not in {0, loop}:
            again.put(size, factors)

    def _multiply(self, rest: str) -> None:
        if (found := _FACTORS.search(rest)) is None:
            raise _UnknownError
        extents, number, columns = found.groups()
        each = next(
            (time for name, time in _PRODUCT_TIMES.items() if number.startswith(name)), None
        )
        if each is None or "= ieee" in rest:  # with no tensor cores
            raise _UnknownError
        self.regions[-1].does[3].put(2 * _elements(extents) * int(columns) * each)

    def _forget(self, *names: str) -> None:
        """Regions beside each other have the same names for other things."""
        for name in names:
            self.known.pop(name, None)
            self.spreads.pop(name, None)
            self.made_of.pop(name, None)
            self.splats.discard(name)

    def _axes(self, names: list[str]) -> frozenset[str]:
        return frozenset[str]().union(*(self.axes_of.get(one, ()) for one in names))

    def _value(self, name: str) -> Value | None:
        value = self.known.get(name)
        return value if isinstance(value, float | int | str) else None

    def _origin(self, pointer: str) -> str:
        while pointer in self.made_of:
            pointer = self.made_of[pointer]
        return pointer

    def _start(self, pointer: str) -> str:
        """Where the addresses of a tile begin: one pointer."""
        while pointer in self.made_of and pointer not in self.splats:
            pointer = self.made_of[pointer]
        return self.made_of.get(pointer, pointer)


def _elements(extents: str) -> int:
    return math.prod(int(one) for one in extents.split("x") if one)
