"""The header and the page of records are the schema's; the schema contradicts nothing."""

import itertools

import numpy as np
import pytest
import record_schema

from sim_server.records import RECORD_TYPE, RecordKind, WaitKind, named_args
from sim_server.records.schema import ARGS, CELL_BYTES, LAYOUTS, WAIT_LAYOUTS
from sim_server.records.writer import announcement, record, wait

HOW = "python tools/record_schema.py"


def test_the_header_is_the_schemas() -> None:
    """To make it anew: python tools/record_schema.py"""
    made = "\n".join(record_schema.header()) + "\n"
    assert record_schema.HEADER.read_text(encoding="utf-8") == made, HOW


def test_the_page_is_the_schemas() -> None:
    """To make it anew: python tools/record_schema.py"""
    made = "\n".join(record_schema.page()) + "\n"
    assert record_schema.PAGE.read_text(encoding="utf-8") == made, HOW


def test_every_kind_has_a_layout_and_no_two_args_one_place() -> None:
    """A wait has its own args beside the slot that all waits have."""
    assert set(LAYOUTS) == set(RecordKind)
    assert set(WAIT_LAYOUTS) == set(WaitKind)
    slot = LAYOUTS[RecordKind.WAIT].args
    waits = [{**slot, **layout.args} for layout in WAIT_LAYOUTS.values()]
    for args in itertools.chain((layout.args for layout in LAYOUTS.values()), waits):
        places = [place.position for place in args.values()]
        assert len(set(places)) == len(places)
        assert set(places) <= set(range(ARGS))
    assert RECORD_TYPE.itemsize == CELL_BYTES


def test_what_is_written_by_name_is_read_by_name() -> None:
    """Negative values as the 64 bits that they are."""
    written = wait(WaitKind.COMM_SPLIT, slot=3, parent=1, color=-1, key=7, index=2, device=1)
    (row,) = np.frombuffer(written, RECORD_TYPE)
    assert (row["kind"], row["id"], row["device"]) == (RecordKind.WAIT, WaitKind.COMM_SPLIT, 1)
    args = named_args(RecordKind.WAIT, row["arg"].tolist(), WaitKind.COMM_SPLIT)
    assert args == {"parent": 1, "color": 2**64 - 1, "key": 7, "index": 2, "slot": 3}


def test_a_payload_follows_in_whole_cells() -> None:
    """Its record says how long it is."""
    written = announcement(RecordKind.SITE, b"x" * 65, id=9)
    assert len(written) == 3 * CELL_BYTES
    assert named_args(RecordKind.SITE, np.frombuffer(written[:64], RECORD_TYPE)[0]["arg"]) == {
        "bytes": 65
    }


@pytest.mark.parametrize("field", ["instance", "arg", "colour"])
def test_a_field_that_a_kind_has_not_is_refused(field: str) -> None:
    """It would be lost."""
    with pytest.raises(TypeError, match=f"a record of kind KERNEL has no field '{field}'"):
        record(RecordKind.KERNEL, **{field: 1})
