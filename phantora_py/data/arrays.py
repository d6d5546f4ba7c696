"""Arrays of a data file: .npy files whose head is not trusted."""

from __future__ import annotations

import io
import math

import numpy as np
import numpy.typing as npt

from sim_server.files.schema import Fault


def read_array(content: bytes, row_type: np.dtype[np.void]) -> npt.NDArray[np.void]:
    """The rows of a .npy file, which must be of that type. Raises: Fault."""
    head = _ArrayHead(content)
    if head.dtype != row_type or len(head.shape) != 1:
        raise Fault(f"its rows are not of the type {row_type}")
    size_bytes = len(content) - head.offset_bytes
    if size_bytes != math.prod(head.shape) * row_type.itemsize:
        raise Fault(f"it has {size_bytes:,} bytes for {head.shape[0]:,} rows")
    return np.frombuffer(content, row_type, offset=head.offset_bytes)


class _ArrayHead:
    """What a .npy file says of itself."""

    def __init__(self, content: bytes) -> None:
        file = io.BytesIO(content)
        try:
            version = np.lib.format.read_magic(file)
            if version != (1, 0):
                raise Fault(f"it is of version {version} of the format")
            self.shape, _, self.dtype = np.lib.format.read_array_header_1_0(file)
        except Fault:
            raise
        except Exception as error:  # whatever numpy's parser finds
            raise Fault(f"it is no array: {error}") from error
        self.offset_bytes = file.tell()
