"""NCCL's types and reductions by number, and small whole numbers in each of its types."""

from __future__ import annotations

import struct

INT8, UINT8, INT32, UINT32, INT64, UINT64, F16, F32, F64, BF16, E4M3, E5M2 = range(12)
SUM, PROD, MAX, MIN, AVG = range(5)
ELEMENT_BYTES = dict(zip(range(12), (1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1), strict=True))
COUNT = 8  # elements of a test operation


def integers(dtype: int, first: int, count: int) -> bytes:
    """Small whole numbers, exact in every type: first, first + 1 ..."""
    values = [first + i for i in range(count)]
    if dtype == BF16:
        return b"".join(struct.pack("<f", value)[2:] for value in values)
    if dtype == E5M2:
        return b"".join(struct.pack("<e", value)[1:] for value in values)
    if dtype == E4M3:  # 1.mmm * 2**(exponent - 7): 0 to 15 have at most four bits
        bits = [v.bit_length() - 1 for v in values]
        return bytes(
            (b + 7) << 3 | ((v << 3 >> b) & 7) if v else 0
            for v, b in zip(values, bits, strict=True)
        )
    code = {
        INT8: "b",
        UINT8: "B",
        INT32: "i",
        UINT32: "I",
        INT64: "q",
        UINT64: "Q",
        F16: "e",
        F32: "f",
        F64: "d",
    }
    return struct.pack(f"<{count}{code[dtype]}", *values)
