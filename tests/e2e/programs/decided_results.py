"""Results that one operand decides, while nobody knows the other; a loop that ends by them."""

from __future__ import annotations

import math

import torch

TURNS = 5
END = 7


def nobody_knows(kind: torch.dtype) -> torch.Tensor:
    weights = torch.randn(4096, 4, device="cuda")
    return (torch.randn(4096, device="cuda") @ weights).to(kind)


def tell_of_operations() -> None:
    yes = torch.ones(4, dtype=torch.bool, device="cuda")
    for name, result in {
        "flags or": nobody_knows(torch.bool) | yes,
        "or flags": yes | nobody_knows(torch.bool),
        "flags and": nobody_knows(torch.bool) & ~yes,
        "numbers and": nobody_knows(torch.int64) & torch.zeros(1, dtype=torch.int32, device="cuda"),
        "numbers and flags": nobody_knows(torch.int64) & ~yes,
        "numbers or": nobody_knows(torch.int64) | torch.full((4,), -1, device="cuda"),
        "logical or": torch.logical_or(nobody_knows(torch.float32), yes),
        "logical and": torch.logical_and(torch.zeros(4, device="cuda"), nobody_knows(torch.bool)),
        "in place": nobody_knows(torch.bool).logical_or_(yes),
        "in its own place": nobody_knows(torch.int64).bitwise_and_(torch.zeros_like(yes)),
    }.items():
        print(f"{name}: {result.tolist()}")
    unknown = nobody_knows(torch.float32)
    for name, result in {
        "not a number": unknown.isnan(),
        "infinite": unknown.isinf(),
        "finite": unknown.isfinite(),
        "numbers": unknown[~unknown.isnan()] != math.inf,
        "others": torch.tensor([1.0, math.inf, math.nan, -math.inf], device="cuda").isfinite(),
    }.items():
        print(f"{name}: {result.tolist()}")
    partly = nobody_knows(torch.bool)
    partly[2] = False
    for name, result in {
        "all": (unknown >= 0).all(),
        "close": torch.isclose(unknown, unknown + 1).all(),
        "equal": torch.allclose(unknown, unknown + 1),
        "any": (unknown < 0).any(),
        "all of what is known": partly.all(),
        "none": torch.tensor([True, False], device="cuda").all(),
        "each row": nobody_knows(torch.bool).view(2, 2).all(1).all(),
        "numbers that are set": nobody_knows(torch.float32).all(),
        "one flag": torch.equal((unknown < 0).any(), torch.tensor(True, device="cuda")),
    }.items():
        print(f"{name}: {bool(result)}")
    large = nobody_knows(torch.float32).repeat(4096)
    most = large.view(2, -1).mode()
    found = torch.isin(large, large[:1000])
    audio = torch.randn(2, 16000, device="cuda")
    window = torch.hann_window(400, device="cuda")
    spectrum = torch.stft(audio, 400, window=window, return_complex=True)
    again = torch.istft(spectrum, 400, window=window)
    print(f"searched: {[one.shape[-1] for one in (*most, found, again)]}")
    # These are not decided: flags are ones among numbers, and not all bits of them.
    for left in (nobody_knows(torch.int64) | yes, nobody_knows(torch.bool) & yes):
        print(f"open: {left.tolist()}")


def generate() -> int:
    """As texts are generated: until all have ended, or for TURNS."""
    unfinished = torch.ones(4, dtype=torch.int64, device="cuda")
    turns = 0
    while True:
        turns += 1
        tokens = torch.multinomial(torch.softmax(nobody_knows(torch.float32), 0), 4)
        is_done = torch.full((4,), False, dtype=torch.bool, device="cuda")
        is_done |= torch.full((4,), turns >= TURNS, dtype=torch.bool, device="cuda")
        is_done = is_done | torch.isin(tokens, torch.tensor([END], device="cuda"))
        unfinished = unfinished & ~is_done
        if unfinished.max() == 0:
            return turns


def main() -> None:
    tell_of_operations()
    print(f"turns: {generate()}", flush=True)
    chances = torch.softmax(nobody_knows(torch.float32).repeat(3, 16), 1)
    made_up = torch.multinomial(chances, 4), torch.multinomial(chances, 4)
    for tokens in made_up:
        print(f"made up: {[len(set(row)) for row in tokens.tolist()]} below {tokens.max() < 64}")
    print(f"others: {(made_up[0] != made_up[1]).any().item()}", flush=True)


if __name__ == "__main__":
    main()
