"""What a rank's records say of it, as far as the agent reads them."""

from sim_server.records import CELL_BYTES, RECORD_TYPE, RecordKind, WaitFlags, WaitKind

# The low byte of a record's field; kinds of waits are few.
assert RECORD_TYPE.fields is not None, "a record has fields"
_ID_AT = RECORD_TYPE.fields["id"][1]


def is_background(cells: bytes) -> bool:
    """Whether a rank only asked what its helper threads want to know: that is no sign of life."""
    return all(
        kind == RecordKind.WAIT and flags & WaitFlags.BACKGROUND
        for kind, flags in zip(cells[::CELL_BYTES], cells[1::CELL_BYTES], strict=True)
    )


def only_takes_turns(cells: bytes) -> bool:
    """Whether a rank only waited for its turn, or came back: so does one that polls."""
    return all(
        kind == RecordKind.WAIT and what in {WaitKind.RESUME, WaitKind.OUTSIDE}
        for kind, what in zip(cells[::CELL_BYTES], cells[_ID_AT::CELL_BYTES], strict=True)
    )
