"""What is known of a CUDA tensor, read and written through the shim (csrc/shim/values)."""

from __future__ import annotations

import ctypes
import enum
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any

# Of integers and flags: the routing tables of experts are larger than what else programs read
# back. Assumed to be enough: 8 experts each for 64 Ki tokens.
MOST_INDEX_BYTES = 4 << 20
# Of what libraries' operators on lengths and indices are given: 8,192 samples of 800 lookups.
MOST_LIBRARY_BYTES = 64 << 20


class UnknownValueError(Exception):
    """A value that is needed is not known."""


class Inputs(enum.Enum):
    """What a first look at an operator's inputs tells."""

    LEFT = enum.auto()  # large, or tensors that are more than a piece of memory
    UNKNOWN = enum.auto()
    PERHAPS_KNOWN = enum.auto()


class TensorValues:
    """The values that one process knows. `most_index_bytes`: of integers and flags, the most that
    an operator is carried out on.
    """

    def __init__(self, torch: ModuleType, most_index_bytes: int = MOST_INDEX_BYTES) -> None:
        self._torch = torch
        self._most_index_bytes = most_index_bytes
        self._tensor_types = (torch.Tensor, torch.nn.Parameter)
        self._strided = torch.strided

    def attach(self, shim: ctypes.CDLL) -> None:
        """Before any of the others is called."""
        self._shim = shim
        # These do not wait, so the interpreter's lock is kept: letting go of it takes longer.
        quick = ctypes.PyDLL(None)
        self._may_be_known = quick.ph_may_be_known
        self._may_be_known.argtypes = [ctypes.c_void_p]
        self._any_may_be_known = quick.ph_any_may_be_known
        self._any_may_be_known.argtypes = [ctypes.c_void_p, ctypes.c_uint64]
        self.state_writes = quick.ph_state_writes
        self.state_writes.argtypes = [ctypes.c_int]
        shim.ph_mark_unknown.argtypes = [ctypes.c_void_p, ctypes.c_uint64]
        self._mark_unknown = shim.ph_mark_unknown
        shim.ph_mark_unwritten.argtypes = [ctypes.c_void_p, ctypes.c_uint64]
        self.mark_unwritten = shim.ph_mark_unwritten
        self._most_bytes = int(shim.ph_value_bytes())
        self.most_bytes = max(self._most_bytes, self._most_index_bytes)

    @contextmanager
    def own_code(self) -> Iterator[None]:
        """Around what is none of the program's: no mode of the program sees it."""
        self._shim.ph_enter()
        try:
            with self._torch._C.DisableTorchFunction():
                yield
        finally:
            self._shim.ph_leave()

    @contextmanager
    def promised_reads(self, number: int, kind: Any = ctypes.c_int64) -> Iterator[None]:
        """What PyTorch reads back of integers meanwhile is `number`."""
        with self._promised(kind(number), made_up=False):
            yield

    @contextmanager
    def made_up_reads(self, numbers: Sequence[int]) -> Iterator[None]:
        """What PyTorch reads back of so many 32-bit integers meanwhile is `numbers`, and the report
        counts it as made up.
        """
        with self._promised((ctypes.c_int32 * len(numbers))(*numbers), made_up=True):
            yield

    @contextmanager
    def made_up_size(self, number: int) -> Iterator[None]:
        """What PyTorch reads back of integers meanwhile is `number`, likewise."""
        with self._promised(ctypes.c_int64(number), made_up=True):
            yield

    @contextmanager
    def _promised(self, values: Any, *, made_up: bool) -> Iterator[None]:
        promise = self._shim.ph_promise_read
        promise(ctypes.byref(values), ctypes.c_uint64(ctypes.sizeof(values)), int(made_up))
        try:
            yield
        finally:
            promise(None, ctypes.c_uint64(0), 0)

    @contextmanager
    def unknown_reads(self) -> Iterator[None]:
        """Numbers that PyTorch reads back meanwhile are not known, unless they are promised."""
        before = self._shim.ph_read_unknown(1)
        try:
            yield
        finally:
            self._shim.ph_read_unknown(before)

    def note_made_up(self, size_bytes: int) -> None:
        """The report counts it as read at the line of the call."""
        self._shim.ph_note_made_up(ctypes.c_uint64(size_bytes))

    def first_look(self, arguments: tuple[Any, ...]) -> Inputs:
        """At little cost: most calls of a training are on large or unknown tensors."""
        found = Inputs.PERHAPS_KNOWN
        for one in arguments:
            first = one[0] if type(one) in (list, tuple) and one else one
            if isinstance(first, self._torch.Tensor):
                look = self._look(first)
                if look is Inputs.LEFT:
                    return look
                if look is Inputs.UNKNOWN:
                    found = look
        return found

    def _look(self, tensor: Any) -> Inputs:
        if not self.is_plain(tensor) or tensor.nbytes > self.most_bytes:
            return Inputs.LEFT
        if not tensor.is_cuda:
            return Inputs.PERHAPS_KNOWN if tensor.is_cpu else Inputs.LEFT
        pointer = tensor.data_ptr()  # None has no elements.
        if pointer and not self._may_be_known(pointer):
            return Inputs.UNKNOWN
        return Inputs.PERHAPS_KNOWN

    def is_plain(self, tensor: Any) -> bool:
        """Whether it is a piece of memory, and not of a class or layout of its own."""
        return (
            type(tensor) in self._tensor_types
            and tensor.layout is self._strided
            and not tensor.is_quantized
            and not tensor.is_nested
        )

    def is_small(self, tensor: Any) -> bool:
        """Whether it may get values."""
        size_bytes = tensor.nbytes
        if size_bytes <= self._most_bytes:
            return True
        return size_bytes <= self.most_bytes and not (
            tensor.is_floating_point() or tensor.is_complex()
        )

    def is_large_index(self, tensor: Any) -> bool:
        """Whether only its being integers in one piece lets its values be known."""
        return (
            self._most_bytes < tensor.nbytes <= self.most_bytes
            and self.is_plain(tensor)
            and tensor.is_contiguous()
            and self.is_small(tensor)
        )

    def is_unknown(self, tensor: Any) -> bool:
        """Whether it could have values, and nobody knows them; not while a graph is captured."""
        if not self.is_plain(tensor) or self._torch.cuda.is_current_stream_capturing():
            return False
        try:
            with self.own_code():
                self.read(tensor)
        except UnknownValueError:
            return True
        return False

    def read(self, tensor: Any) -> Any:
        """A CPU tensor of the same values.

        Raises: UnknownValueError
        """
        empty = self._torch.empty
        if not self.is_plain(tensor) or tensor.is_conj() or tensor.is_neg():
            raise UnknownValueError
        if tensor.numel() == 0:
            return empty(tensor.shape, dtype=tensor.dtype, device="cpu")
        pointer = tensor.data_ptr()
        if not pointer or tensor.nbytes > self.most_bytes or not self._may_be_known(pointer):
            raise UnknownValueError
        values = empty(tensor.shape, dtype=tensor.dtype, device="cpu")
        if not self._shim.ph_read_values(*self._place(tensor), ctypes.c_void_p(values.data_ptr())):
            raise UnknownValueError
        return values

    def read_known(self, tensor: Any, values: Any) -> bool:
        """The known elements into `values`, a CPU tensor in one piece; its others stay. Returns
        whether there are any.
        """
        to = ctypes.c_void_p(values.data_ptr())
        return bool(self._shim.ph_read_known_values(*self._place(tensor), to))

    def may_be_known(self, tensor: Any) -> bool:
        """Whether some of it may be: a quick no."""
        pointer = tensor.data_ptr()
        return bool(pointer and self._any_may_be_known(pointer, self._extent(tensor)))

    def write(self, tensor: Any, values: Any, chosen: Any = None) -> None:
        """What a kernel has written. Large values stay unknown. `chosen`: flags in one piece, which
        elements are written; the others stay as they are.
        """
        if tensor.numel() == 0:
            return
        is_same = tensor.layout is values.layout and tensor.shape == values.shape
        if not is_same or not self.is_small(tensor):
            self.forget(tensor)
            return
        values = values.detach().resolve_conj().resolve_neg().to(tensor.dtype).contiguous()
        flags = None if chosen is None else chosen.data_ptr()
        self._shim.ph_write_values(
            *self._place(tensor), ctypes.c_void_p(values.data_ptr()), ctypes.c_void_p(flags)
        )

    def forget(self, tensor: Any) -> None:
        """Nothing in it is known any more."""
        if tensor.layout is not self._strided:
            return  # Kernels that make such tensors are left alone.
        extent = self._extent(tensor)
        if extent:
            self._mark_unknown(tensor.data_ptr(), extent)

    def _extent(self, tensor: Any) -> int:
        """From its first byte to its last."""
        if tensor.is_contiguous():
            return int(tensor.nbytes)
        if tensor.numel() == 0:
            return 0
        sizes = zip(tensor.shape, tensor.stride(), strict=True)
        return int((sum((n - 1) * step for n, step in sizes) + 1) * tensor.element_size())

    def _place(self, tensor: Any) -> tuple[Any, ...]:
        dimensions = tensor.dim()
        numbers = ctypes.c_int64 * dimensions
        return (
            ctypes.c_void_p(tensor.data_ptr()),
            ctypes.c_uint64(tensor.element_size()),
            ctypes.c_uint64(dimensions),
            numbers(*tensor.shape),
            numbers(*tensor.stride()),
        )
