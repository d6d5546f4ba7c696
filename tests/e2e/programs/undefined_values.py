"""What a GPU and a CPU do differently: integers of numbers that they do not hold, and divisions.

Each tensor is compared element by element: what is known is as it should be on both.
"""

from __future__ import annotations

from importlib import import_module

import torch

known_values = import_module("random_values").known_values

REAL = [float("nan"), float("inf"), -float("inf"), 1e20, 3e9, 70000.7, 300.7, -1.5]
INTEGERS = {  # How many of the last ones the type holds.
    torch.int64: 4,
    torch.int32: 3,
    torch.int16: 2,
    torch.int8: 1,
}
LEAST = -(1 << 31)


def on_gpu(values: list[float], dtype: torch.dtype) -> torch.Tensor:
    return torch.tensor(values, dtype=dtype).cuda()


def known(tensor: torch.Tensor) -> list[float | None]:
    """Each element's value; None: it is unknown."""
    parts = [known_values(tensor[at : at + 1]) for at in range(len(tensor))]
    return [None if part is None else part.item() for part in parts]


def conversions() -> None:
    for dtype, held in INTEGERS.items():
        expected = [None] * (len(REAL) - held) + [int(one) for one in REAL[len(REAL) - held :]]
        for source in (torch.float32, torch.float64):
            real = on_gpu(REAL, source)
            strided = torch.zeros(2 * len(REAL), device="cuda", dtype=dtype)[::2]
            ways = {
                "to": real.to(dtype),
                "copy_": strided.copy_(real),
                "of a row": torch.stack([real, real])[1].to(dtype),
            }
            for name, made in ways.items():
                found = known(made)
                print(f"{name} {source} {dtype} {'right' if found == expected else found}")
            summed = known(real.cumsum(0, dtype=dtype))
            print(f"cumsum {source} {dtype} {'right' if set(summed) == {None} else summed}")


def divisions() -> None:
    one = on_gpu([7, LEAST, LEAST, -7], torch.int32)
    other = on_gpu([0, -1, 2, 2], torch.int32)
    expected = {"floor": [None, None, -(1 << 30), -4], "trunc": [None, None, -(1 << 30), -3]}
    for mode, numbers in expected.items():
        found = known(torch.div(one, other, rounding_mode=mode))
        # Not every kernel is carried out.
        print(f"{mode} {'right' if found in (numbers, [None] * 4) else found}")


def small_types() -> None:
    """PyTorch's conversions to 8 bits do not saturate."""
    for dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
        for source in (torch.float16, torch.float32):
            real = torch.tensor([460.0, 1e4, 6.2e4, float("inf"), float("nan")], dtype=source)
            expected = real.to(dtype).view(torch.uint8).tolist()
            found = known(real.cuda().to(dtype).view(torch.uint8))
            print(f"{source} {dtype} {'right' if found in (expected, [None] * 5) else found}")


def main() -> None:
    conversions()
    divisions()
    small_types()


if __name__ == "__main__":
    main()
