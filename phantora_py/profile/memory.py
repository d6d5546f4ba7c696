"""The memory of all ranks on one GPU: their addresses, over one pool of physical memory.

A rank's device memory lies at the same addresses in the executor, so that pointers stay what they
are, also inside structures and in lists that are in device memory themselves. Addresses are mapped
when a launch needs them, in chunks. Chunk n has piece n of the pool, modulo its length: only what
lies further apart than the pool is long shares a piece.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from phantora_py.profile.calls.common import Refusal
from phantora_py.profile.driver import Driver

# Where the memory of the ranks' first GPU begins: csrc/shim/core/addresses.h.
_FIRST_ADDRESS = 0x1100_0000_0000
# Half of what a simulated GPU has in addresses (kDeviceSpanBytes there): an executor that is
# simulated itself has the other half for what it allocates.
_WINDOW_BYTES = 256 << 30
_CHUNK_BYTES = 256 << 20
# The rest is for calls of libraries, which allocate their operands (assumed).
_POOL_SHARE = 0.75


class Memory:
    """Keeps what it has mapped until the process ends."""

    def __init__(self, torch: Any, driver: Driver) -> None:
        self._driver = driver
        self._device = torch.cuda.current_device()
        free_bytes, _ = torch.cuda.mem_get_info()
        self._pieces: list[int | None] = [None] * max(
            1, int(_POOL_SHARE * free_bytes) // _CHUNK_BYTES
        )
        self._windows: dict[int, bool] = {}
        self._mapped: set[int] = set()
        # At once: later somebody else may have these addresses.
        self._reserve(_FIRST_ADDRESS // _WINDOW_BYTES)

    def prepare(
        self, regions: Sequence[tuple[int, int]], contents: Sequence[tuple[int, bytes]]
    ) -> None:
        """Address and size of each region are memory afterwards, and hold zeros, which are indices
        and sizes as good as any, but for these contents. Raises: Refusal.
        """
        for address, size_bytes in regions:
            last = (address + size_bytes - 1) // _CHUNK_BYTES
            for chunk in range(address // _CHUNK_BYTES, last + 1):
                self._map(chunk)
        for address, size_bytes in regions:
            self._driver.zero(address, size_bytes)
        for address, content in contents:
            self._driver.write(address, content)

    def _map(self, chunk: int) -> None:
        if chunk in self._mapped:
            return
        address = chunk * _CHUNK_BYTES
        if not self._reserve(address // _WINDOW_BYTES):
            raise Refusal(f"the driver lays no memory at {address:#x}, where the ranks have it")
        number = chunk % len(self._pieces)
        piece = self._pieces[number]
        if piece is None:
            piece = self._driver.create(self._device, _CHUNK_BYTES)
            if piece is None:
                raise Refusal("it does not fit into the GPU's memory")
            self._pieces[number] = piece
        self._driver.map(self._device, address, _CHUNK_BYTES, piece)
        self._mapped.add(chunk)

    def _reserve(self, window: int) -> bool:
        if window not in self._windows:
            address = window * _WINDOW_BYTES
            self._windows[window] = self._driver.reserve(address, _WINDOW_BYTES)
        return self._windows[window]
