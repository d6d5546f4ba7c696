"""What PyTorch's CUDA kernels draw, followed thread by thread.

Written from the kernels' sources (aten/src/ATen/native/cuda/DistributionTemplates.h, Dropout.cu,
Randperm.cu, MultinomialKernel.cu) and cuRAND's description of its generator, and as slow as it may
be: it shares nothing with the code that it tests.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator

SEED = 0
LOW = 0xFFFFFFFF


def philox(counter: list[int], key: list[int]) -> list[int]:
    """Philox4x32-10."""
    for _ in range(10):
        first, second = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [
            second >> 32 ^ counter[1] ^ key[0],
            second & LOW,
            first >> 32 ^ counter[3] ^ key[1],
            first & LOW,
        ]
        key = [key[0] + 0x9E3779B9 & LOW, key[1] + 0xBB67AE85 & LOW]
    return counter


def calls(thread: int, offset: int = 0, seed: int = SEED) -> Iterator[list[int]]:
    """What one thread's calls of `curand4` return after `curand_init`."""
    call = offset // 4
    while True:
        yield philox([call & LOW, call >> 32, thread & LOW, thread >> 32], [seed & LOW, seed >> 32])
        call += 1


def to_single(number: float) -> float:
    return float(struct.unpack("f", struct.pack("f", number))[0])


def to_half(number: float) -> float:
    return float(struct.unpack("e", struct.pack("e", number))[0])


def uniform(word: int) -> float:
    """`curand_uniform`."""
    return to_single(to_single(float(word)) * 2.0**-32 + 2.0**-33)


def uniform_double(low: int, high: int) -> float:
    return float(low ^ high << 21) * 2.0**-53 + 2.0**-54


def elements(count: int, offset: int = 0, seed: int = SEED) -> list[int]:
    """One word each: a thread for each of them."""
    return [next(calls(thread, offset, seed))[0] for thread in range(count)]


def wide_elements(count: int, offset: int = 0, seed: int = SEED) -> list[tuple[int, int]]:
    """The first two words each."""
    return [
        (words[0], words[1])
        for words in (next(calls(thread, offset, seed)) for thread in range(count))
    ]


def integers(count: int, size: int, offset: int = 0, seed: int = SEED) -> list[int]:
    """Below `size`."""
    if size < 1 << 28:
        return [word % size for word in elements(count, offset, seed)]
    return [(first << 32 | second) % size for first, second in wide_elements(count, offset, seed)]


def kept(count: int, chance: float, at_once: int) -> list[bool]:
    """Dropout's mask, of a thread that takes `at_once` elements."""
    while count % at_once:
        at_once //= 2
    if at_once == 1:
        return [uniform(word) < chance for word in elements(count)]
    mask: list[bool] = []
    for thread in range(count // at_once):
        generator, words = calls(thread), list[int]()
        for _ in range(-(-at_once // 4)):
            words += next(generator)
        mask += [uniform(word) < chance for word in words[:at_once]]
    return mask


def order(count: int, seed: int = SEED) -> list[int]:
    """`randperm`, of small counts."""
    bits = math.ceil(math.log2(count - (6 * count**2 + 1) / (math.log(0.9) * 12)))
    keys = [key - 2**31 & (1 << bits) - 1 for key in integers(count, 2**32 - 1, 0, seed)]
    found = sorted(range(count), key=lambda one: keys[one])
    keys.sort()
    place = 0
    while place < count:
        size = keys[place:].count(keys[place])
        generator, words = calls(place, 4, seed), list[int]()
        for last in range(size - 1, 0, -1):
            words = words or next(generator)
            other = words.pop(0) % (last + 1)
            first, second = place + last, place + other
            found[first], found[second] = found[second], found[first]
        place += size
    return found


def largest_quotients(chances: list[float], rows: int, count: int) -> list[list[int]]:
    """`multinomial` without replacement."""
    drawn = iter(elements(rows * len(chances)))
    found = []
    for _ in range(rows):
        quotients = [chance / -math.log(uniform(next(drawn))) for chance in chances]
        places = sorted(range(len(chances)), key=lambda one: -quotients[one])
        found.append(places[:count])
    return found


def places_in_sums(chances: list[float], rows: int, count: int) -> list[list[int]]:
    """`multinomial` with replacement, of at most 128 choices for a row."""
    found = []
    for row in range(rows):
        choices = []
        for sample in range(count):
            drawn = uniform(next(calls(row * 128 + sample))[0]) * math.fsum(chances)
            place = 0
            while math.fsum(chances[: place + 1]) < drawn:
                place += 1
            choices.append(place)
        found.append(choices)
    return found
