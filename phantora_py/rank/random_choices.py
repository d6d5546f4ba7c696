"""`multinomial`: which choices the GPU's rounding cannot change.

PyTorch's kernels divide by logarithms of a fast approximation, or look numbers up in sums that are
rounded in an order of their own. So their results are told by intervals: a choice that holds for
all numbers in them is the GPU's, and all others are unknown. docs/decisions/random-numbers.md
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from .random_numbers import Draws
from .tensor_values import UnknownValueError

# Of CUDA's `__logf`, twice as wide as its manual says: from 1/2 to 2 an absolute error of 2^-21.41,
# elsewhere 3 units in the last place ("CUDA C++ Programming Guide", intrinsic functions).
LOGARITHM_ERROR = 2.0**-20.4
LOGARITHM_RELATIVE_ERROR = 6 * 2.0**-23
# PyTorch's kernel takes this for the logarithm of numbers next to 1.
LEAST_EXPONENTIAL = 2.0**-24
# Roundings of a quotient and of what it is made of, of each type, four times over.
ROUNDING = {"float64": 2.0**-22, "float32": 2.0**-21, "float16": 2.0**-8, "bfloat16": 2.0**-5}
CHOICE_THREADS = 128


def choices(torch: ModuleType, draws: Draws, chances: Any, count: int, replaces: bool) -> Any:
    """`count` choices for each row. `chances`: on the CPU, of one or two dimensions.

    Raises: UnknownValueError if rounding may change one
    """
    rows = chances.reshape(-1, chances.shape[-1])
    wide = rows.to(torch.float64)
    sums = wide.sum(1)
    if not bool((wide >= 0).all() and (sums > 0).all() and sums.isfinite().all()):
        raise UnknownValueError
    if count == 1 or not replaces:
        found = _largest_quotients(torch, draws, rows, wide, count)
    else:
        found = _places_in_sums(torch, draws, rows, wide / sums[:, None], count)
    return found.reshape(*chances.shape[:-1], count)


def _largest_quotients(torch: ModuleType, draws: Draws, rows: Any, wide: Any, count: int) -> Any:
    """Of a chance and an exponential number each."""
    drawn = draws.uniform(rows.numel(), rows.dtype).to(torch.float64).reshape(rows.shape)
    exact = -drawn.log()
    error = torch.where(drawn >= 0.5, LOGARITHM_ERROR, exact * LOGARITHM_RELATIVE_ERROR)
    low, high = exact - error, exact + error
    is_next_to_one = drawn >= 1 - LEAST_EXPONENTIAL
    low, high = (torch.where(is_next_to_one, LEAST_EXPONENTIAL, one) for one in (low, high))
    # From here on: bounds of the quotients. Below zero there is no logarithm.
    rounding = ROUNDING[str(rows.dtype).removeprefix("torch.")]
    most = torch.where(wide > 0, wide / low.clamp(min=0) * (1 + rounding), 0.0)
    least = wide / high * (1 - rounding)
    if not bool((most <= torch.finfo(rows.dtype).max / 2).all()):
        raise UnknownValueError
    order = least.argsort(dim=1, descending=True)
    least, most = least.gather(1, order), most.gather(1, order)
    # The greatest quotient that any later one may have.
    later = most.flip(1).cummax(1).values.flip(1)[:, 1:]
    later = torch.nn.functional.pad(later, (0, 1), value=-1.0)
    if not bool((least[:, :count] > later[:, :count]).all()):
        raise UnknownValueError
    return order[:, :count]


def _places_in_sums(torch: ModuleType, draws: Draws, rows: Any, parts: Any, count: int) -> Any:
    """The first running sum that is no less than the number drawn."""
    if rows.dtype not in (torch.float32, torch.float64):
        raise UnknownValueError
    blocks = -(-count // CHOICE_THREADS)
    threads = len(rows) * blocks * CHOICE_THREADS
    drawn = draws.as_uniform(draws.numbers(threads, threads)).to(torch.float64)
    draws.advance(4)
    drawn = drawn.reshape(len(rows), -1)[:, :count].contiguous()
    sums = parts.cumsum(1)
    # Each of so many sums and quotients is off by half a unit of its last place at most.
    error = 4 * (rows.shape[1] + 4) * 2.0**-24
    first = torch.searchsorted(sums, drawn - error)
    last = torch.searchsorted(sums, drawn + error)
    if not bool(((first == last) & (last < rows.shape[1])).all()):
        raise UnknownValueError
    return first
