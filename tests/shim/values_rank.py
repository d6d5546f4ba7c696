"""The rank of test_values.py: copies and fills. Argument: one of the functions below."""

from __future__ import annotations

import ctypes
import mmap
import sys

from code_objects import cubin, fat_binary
from rank_device import (
    ON_DEVICE,
    TO_DEVICE,
    TO_HOST,
    allocate,
    copy,
    cuda,
    download,
    part,
    run_scenario,
    size_t,
    upload,
)

THRESHOLD = 64 << 10


def round_trip() -> dict[str, str]:
    """Uploads carry bytes below and above the threshold."""
    edge = bytes(i % 251 for i in range(THRESHOLD))
    large = upload(edge + b"\x01")
    return {
        "small": download(upload(b"abc"), 3),
        "edge": str(download(upload(edge), THRESHOLD) == edge.hex()),
        "large_start": download(large, 4),
        "large": str(download(large, THRESHOLD + 1) == (edge + b"\x01").hex()),
    }


def uploads() -> dict[str, str]:
    """Batches of one size, of which each has a part read back, and others that nobody looks at."""
    read, size = [], THRESHOLD + 8
    for number in range(8):
        batch = upload(bytes([number + 1]) * size)
        read.append(download(part(batch, 16), 1))
    left = [upload(b"\x77" * (size + 8)) for _ in range(5)]
    return {"read": " ".join(read), "last of the others": download(left[-1], 1)}


def large_reads() -> dict[str, str]:
    """More than the threshold of what nobody knows, and of what is known in part, to memory that
    the host has written; and to memory that it has only looked at.
    """
    size = 4 * THRESHOLD
    written = ctypes.create_string_buffer(b"\xff" * size, size)
    copy(written, allocate(size), size, TO_HOST)
    half = allocate(size)
    copy(half, b"\x11" * 8, 8, TO_DEVICE)
    partly = ctypes.create_string_buffer(b"\xff" * size, size)
    copy(partly, half, size, TO_HOST)
    with mmap.mmap(-1, size) as shared:
        looked_at = ctypes.c_char.from_buffer(shared)
        copy(ctypes.byref(looked_at), allocate(size), size, TO_HOST)
        untouched = not any(shared[:])
        del looked_at
    return {
        "written": str(not any(written.raw)),
        "partly": partly.raw[:12].hex(),
        "rest": str(not any(partly.raw[8:])),
        "untouched": str(untouched),
    }


def partial() -> dict[str, str]:
    """Known bytes between unknown ones."""
    memory = allocate(16)
    copy(part(memory, 4), b"\x11" * 4, 4, TO_DEVICE)
    moved = upload(b"\x22" * 16)
    copy(moved, memory, 16, ON_DEVICE)
    return {"memory": download(memory, 16), "moved": download(moved, 16)}


def fills() -> dict[str, str]:
    """A fill is known, over known bytes and in part."""
    memory = upload(b"\x33" * 8)
    assert cuda.cudaMemset(part(memory, 2), 0x44, size_t(4)) == 0
    return {"memory": download(memory, 8)}


def overlap() -> dict[str, str]:
    """A copy within one allocation reads before it writes."""
    memory = upload(bytes(range(8)))
    copy(part(memory, 2), memory, 6, ON_DEVICE)
    return {"memory": download(memory, 8)}


def reused_source() -> dict[str, str]:
    """The program may change a pageable source right after an asynchronous copy."""
    source = ctypes.create_string_buffer(b"before", 6)
    memory = allocate(6)
    assert cuda.cudaMemcpyAsync(memory, source, size_t(6), TO_DEVICE, None) == 0
    source.raw = b"after!"
    return {"memory": bytes.fromhex(download(memory, 6)).decode()}


def pinned() -> dict[str, str]:
    """Device to pinned memory and on to the device, without a wait in between."""
    pointer = ctypes.c_void_p()
    assert cuda.cudaMallocHost(ctypes.byref(pointer), size_t(8)) == 0
    first, second = upload(b"\x55" * 8), allocate(8)
    assert cuda.cudaMemcpyAsync(pointer, first, size_t(8), TO_HOST, None) == 0
    assert cuda.cudaMemcpyAsync(second, pointer, size_t(8), TO_DEVICE, None) == 0
    assert cuda.cudaDeviceSynchronize() == 0
    return {"host": ctypes.string_at(pointer, 8).hex(), "device": download(second, 8)}


def freed() -> dict[str, str]:
    """What was known of freed memory is not known of memory allocated there later."""
    memory = upload(b"\x66" * 8)
    address = memory.value
    assert cuda.cudaFree(memory) == 0
    again = allocate(8)
    return {"same_place": str(again.value == address), "memory": download(again, 8)}


class _Shape(ctypes.Structure):
    """dim3."""

    _fields_ = [("x", ctypes.c_uint), ("y", ctypes.c_uint), ("z", ctypes.c_uint)]


class _Holder(ctypes.Structure):
    """What a kernel takes by value, its pointer not first."""

    _fields_ = [("count", ctypes.c_long), ("data", ctypes.c_void_p)]


class _Wrapper(ctypes.Structure):
    """What __cudaRegisterFatBinary gets."""

    _fields_ = [
        ("magic", ctypes.c_uint),
        ("version", ctypes.c_uint),
        ("data", ctypes.c_char_p),
        ("names", ctypes.c_void_p),
    ]


class _HolderAndMore(ctypes.Structure):
    """A structure that a kernel takes, and what lies behind it on the stack."""

    _fields_ = [("holder", _Holder), ("behind", ctypes.c_void_p)]


class _Accessor(ctypes.Structure):
    """at::GenericPackedTensorAccessor<int, 1, at::RestrictPtrTraits, int>."""

    _fields_ = [("data", ctypes.c_void_p), ("size", ctypes.c_int), ("stride", ctypes.c_int)]


class _Halves(ctypes.Structure):
    """An address as 32-bit words."""

    _fields_ = [("count", ctypes.c_uint), ("high", ctypes.c_uint), ("low", ctypes.c_uint)]


_stubs: list[object] = []
_MOST_PARAMETER_BYTES = 1 << 15  # CUDA's own limit is 4 bytes less


def _launch(
    name: str, *arguments: ctypes._CData, in_word: int = 0, code: bytes | None = None
) -> None:
    """Launches a kernel of that mangled name, as a program's own code does. Each argument is some
    bytes into a word, and behind it are zeros, as far as one of unknown size may be looked at.
    `code`: a fat binary.
    """
    stub = ctypes.create_string_buffer(16)
    mangled = ctypes.c_char_p(name.encode())
    wrapper = None if code is None else _Wrapper(0x466243B1, 1, ctypes.c_char_p(code))
    _stubs.append((stub, mangled, wrapper))
    none = [None] * 5
    handle = None if wrapper is None else ctypes.byref(wrapper)
    cuda.__cudaRegisterFunction(handle, stub, mangled, mangled, -1, *none)
    places = mmap.mmap(-1, len(arguments) * _MOST_PARAMETER_BYTES or 1)
    begin = ctypes.addressof(ctypes.c_char.from_buffer(places))
    addresses = (ctypes.c_void_p * (len(arguments) + 1))()
    for i, argument in enumerate(arguments):
        addresses[i] = begin + i * _MOST_PARAMETER_BYTES + in_word
        ctypes.memmove(addresses[i] or 0, ctypes.addressof(argument), ctypes.sizeof(argument))
    one = _Shape(1, 1, 1)
    assert cuda.cudaLaunchKernel(stub, one, one, addresses, size_t(0), None) == 0


def launches() -> dict[str, str]:
    """Kernels that nobody knows, with known memory in all kinds of arguments."""
    upload(b"\x77" * 8)  # where a small number and the higher half of an address lead to
    memory = {name: upload(b"\x77" * 8) for name in ("read", "written", "bystander", "plain")}
    memory |= {name: upload(b"\x77" * 8) for name in ("number", "held", "listed", "after")}
    memory |= {name: upload(b"\x77" * 8) for name in ("low_first", "high_first", "apart")}
    memory |= {name: upload(b"\x77" * 8) for name in ("packed", "in_middle")}
    _launch("_Z4copyPKiPi", memory["read"], memory["written"])
    _launch("scale", memory["plain"])
    _launch("_Z4fillm", ctypes.c_ulong(memory["number"].value or 0))
    _launch("_Z4walk6Holder", _Holder(2, memory["held"].value))
    pointers = upload((memory["listed"].value or 0).to_bytes(8, "little"))
    _launch("_Z4manyPKPf", pointers)
    _launch("_Z4backPi", part(memory["after"], 4))
    for name in ("low_first", "high_first"):
        address = memory[name].value or 0
        halves = [ctypes.c_uint(address & 0xFFFFFFFF), ctypes.c_uint(address >> 32)]
        _launch("_Z4joinjj", *(halves if name == "low_first" else reversed(halves)))
    address = memory["apart"].value or 0
    low, high = ctypes.c_uint(address & 0xFFFFFFFF), ctypes.c_uint(address >> 32)
    _launch("_Z4joinjij", high, ctypes.c_int(3), low)
    address = memory["packed"].value or 0
    _launch("_Z4join6Halves", _Halves(0, address >> 32, address & 0xFFFFFFFF))
    address = memory["in_middle"].value or 0
    _launch("_Z4join6Halves", _Halves(address >> 32, address & 0xFFFFFFFF), in_word=4)
    return {name: download(pointer, 8) for name, pointer in memory.items()}


def _sized(*, packed: bool) -> dict[str, str]:
    """Kernels whose code object tells how large their parameters are: a structure, and a kernel
    whose name tells nothing, with more addresses behind the list of its arguments.
    """
    kernels = {"_Z4walk6Holder": [16], "scale": [8, 4]}
    code = fat_binary(cubin(kernels), packed=packed)
    memory = {name: upload(b"\x77" * 8) for name in ("held", "behind", "plain", "after")}
    addresses = {name: memory[name].value for name in memory}
    structure = _HolderAndMore(_Holder(2, addresses["held"]), addresses["behind"])
    _launch("_Z4walk6Holder", structure, code=code)
    _launch("scale", memory["plain"], ctypes.c_uint(3), memory["after"], code=code)
    return {name: download(pointer, 8) for name, pointer in memory.items()}


def sized() -> dict[str, str]:
    """As it is."""
    return _sized(packed=False)


def packed() -> dict[str, str]:
    """Packed as CUDA 13 does."""
    return _sized(packed=True)


def lookups() -> dict[str, str]:
    """Forward kernels as FBGEMM's, of training and of inference, with weights, a divisor, indices,
    offsets and results, and what is on the stack beside them.
    """
    accessor = "N2at27GenericPackedTensorAccessorIiLm1ENS_17RestrictPtrTraitsEiEE"
    types = f"{accessor}N10fbgemm_gpu12FixedDivisorES2_S2_S2_"
    names = ("weights", "beside", "indices", "offsets", "results")
    found: dict[str, str] = {}
    for kind in ("", "int_nbit_"):
        kernel = f"{kind}split_embedding_codegen_forward_kernel"
        memory = {name: upload(b"\x77" * 8) for name in names}
        arguments = {name: _Accessor(memory[name].value, 2, 1) for name in memory}
        divisor = _Holder(2, memory["beside"].value)
        first, *rest = (arguments[name] for name in names if name != "beside")
        _launch(f"_Z{len(kernel)}{kernel}{types}", first, divisor, *rest)
        found |= {kind + name: download(pointer, 8) for name, pointer in memory.items()}
    return found


class _Inputs(ctypes.Structure):
    """CatArrInputTensorMetadata<OpaqueType<4>, unsigned, 128, 1>, without its last members."""

    _fields_ = [
        ("input", ctypes.c_void_p * 128),
        ("offset", ctypes.c_uint * 128),
        ("dimSize", ctypes.c_uint * 128),
        ("nElements", ctypes.c_uint * 128),
    ]


class _SizeStride(ctypes.Structure):
    """TensorSizeStride<unsigned, 4>."""

    _fields_ = [("tensorSize", ctypes.c_uint * 4), ("tensorStride", ctypes.c_uint * 4)]


def concatenated() -> dict[str, str]:
    """One tensor of what nobody knows. The places of more tensors, and of more dimensions, hold
    what was on the stack: an address of pinned memory.
    """
    pinned = ctypes.c_void_p()
    assert cuda.cudaMallocHost(ctypes.byref(pinned), size_t(256)) == 0
    address = pinned.value or 0
    inputs = _Inputs((allocate(4).value, *[address] * 127))
    inputs.dimSize[0] = inputs.nElements[0] = 1
    half = (1, 1, address & 0xFFFFFFFF, address >> 32)
    shape = _SizeStride(half, half)
    name = (
        "_ZN2at6native12_GLOBAL__N_135CatArrayBatchedCopy_alignedK_contigINS1_10OpaqueTypeILj4EEEj"
        "Li1ELi128ELi1ELi16EEEvPT_NS1_25CatArrInputTensorMetadataIS5_T0_XT2_EXT3_EEE"
        "NS1_16TensorSizeStrideIS8_Lj4EEEiS8_"
    )
    sizes = [8, ctypes.sizeof(inputs), ctypes.sizeof(shape), 4, 4]
    code = fat_binary(cubin({name: sizes}), packed=False)
    _launch(name, allocate(4), inputs, shape, ctypes.c_int(0), ctypes.c_uint(1), code=code)
    return {}


class _WideInputs(ctypes.Structure):
    """The same with numbers of 64 bits."""

    _fields_ = [
        ("input", ctypes.c_void_p * 128),
        ("offset", ctypes.c_ulong * 128),
        ("dimSize", ctypes.c_ulong * 128),
        ("nElements", ctypes.c_ulong * 128),
    ]


def garbled_concatenation() -> dict[str, str]:
    """An input of so many elements that the product with their size is zero."""
    inputs = _WideInputs((upload(b"\x55" * 8).value,))
    inputs.dimSize[0] = inputs.nElements[0] = 1 << 62
    shape = (ctypes.c_ulong * 8)(*[1] * 8)
    output = upload(b"\x77" * 8)
    name = (
        "_ZN2at6native12_GLOBAL__N_135CatArrayBatchedCopy_alignedK_contigINS1_10OpaqueTypeILj4EEEm"
        "Li1ELi128ELi1ELi16EEEvPT_NS1_25CatArrInputTensorMetadataIS5_T0_XT2_EXT3_EEE"
        "NS1_16TensorSizeStrideIS8_Lj4EEEiS8_"
    )
    _launch(name, output, inputs, shape, ctypes.c_int(0), ctypes.c_ulong(1))
    return {"output": download(output, 8)}


def kept_addresses() -> dict[str, str]:
    """What a kernel was given may be written by a later one that is not."""
    given, read, freed, other = (upload(b"\x77" * 8) for _ in range(4))
    _launch("_Z4keepPKiPiS1_", read, given, freed)
    address = freed.value
    assert cuda.cudaFree(freed) == 0
    again = upload(b"\x77" * 8)
    assert again.value == address
    copy(given, b"\x77" * 8, 8, TO_DEVICE)
    before = download(given, 8)
    _launch("_Z5laterv")
    after = download(given, 8)
    copy(given, b"\x77" * 8, 8, TO_DEVICE)
    rest = {"read": read, "given again": given, "freed": again, "bystander": other}
    return {"before": before, "after": after} | {n: download(p, 8) for n, p in rest.items()}


def numbers() -> dict[str, str]:
    """An address that was a number on the device may be in memory of which nobody knows what it
    holds.
    """
    named, other = (upload(b"\x77" * 8) for _ in range(2))
    table = upload((named.value or 0).to_bytes(8, "little"))
    copy(table, allocate(8), 8, ON_DEVICE)
    before = download(named, 8)
    _launch("_Z5laterv")
    rest = {"after": download(named, 8), "bystander": download(other, 8)}
    copy(named, b"\x77" * 8, 8, TO_DEVICE)
    return rest | {"before": before, "written again": download(named, 8)}


if __name__ == "__main__":
    run_scenario(globals()[sys.argv[1]])
