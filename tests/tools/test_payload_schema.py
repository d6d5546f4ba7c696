"""The structures and the page of payloads are the schema's, and payloads are checked by it."""

from __future__ import annotations

import re
from typing import Any

import payload_schema
import pytest

from sim_server.records.forms import check_payload, members, payload_of
from sim_server.records.payloads import (
    SIGNATURES,
    Attention,
    Dot,
    Gemm,
    GroupedGemm,
    Kernel,
    OperationGraph,
    Solve,
)
from sim_server.records.python_statistics import STATISTICS

HOW = "python tools/payload_schema.py"
KERNEL: dict[str, Any] = {
    **{"kind": "kernel", "name": "_Z1kv", "grid": [1, 1, 1], "block": [32, 1, 1]},
    **{"shared_bytes": 0, "scalars": [[0, -1]]},
}
COUNTS: dict[str, Any] = {
    **{"kind": "calls", "library": "cudart", "modelled": {"cudaMalloc": 3}},
    **{"ignored": {}, "passthrough": {}},
}


def test_the_header_is_the_schemas() -> None:
    """To make it anew: python tools/payload_schema.py"""
    made = "\n".join(payload_schema.header()) + "\n"
    assert payload_schema.HEADER.read_text(encoding="utf-8") == made, HOW


def test_the_page_is_the_schemas() -> None:
    """To make it anew: python tools/payload_schema.py"""
    made = "\n".join(payload_schema.page()).rstrip() + "\n"
    assert payload_schema.PAGE.read_text(encoding="utf-8") == made, HOW


@pytest.mark.parametrize("payload", [*SIGNATURES, *STATISTICS], ids=lambda one: one.__name__)
def test_optional_members_come_last(payload: type) -> None:
    """The keys of host gaps are these texts: their order is part of the form."""
    optional = [member.is_optional for member in members(payload)]
    assert optional == sorted(optional)
    assert members(payload)[0].name == "kind"


@pytest.mark.parametrize(
    ("names", "payload"),
    [
        ({"kind": "kernel"}, Kernel),
        ({"kind": "gemm", "library": "cublas"}, Gemm),
        ({"kind": "gemm", "library": "cutlass", "grouped": True}, GroupedGemm),
        ({"kind": "library", "library": "cublas", "operation": "dot"}, Dot),
        ({"kind": "library", "library": "cublas", "operation": "getrf"}, Solve),
        ({"kind": "library", "library": "cudnn", "operation": "graph"}, OperationGraph),
        ({"kind": "library", "library": "cudnn", "operation": "attention_forward"}, Attention),
    ],
)
def test_a_signature_is_of_one_class(names: dict[str, Any], payload: type) -> None:
    """Its kind, its library and its operation say of which."""
    assert payload_of(names, SIGNATURES) is payload


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"grid": [1, 1]}, "[1, 1] where a list of 3 belongs"),
        ({"name": 7}, "7 where a text belongs"),
        ({"shared_bytes": True}, "True where an integer of 64 bits belongs"),
        ({"shared_bytes": 0.5}, "0.5 where an integer of 64 bits belongs"),
        ({"shared_bytes": 1 << 64}, "18446744073709551616 where an integer of 64 bits belongs"),
        ({"scalars": {}}, "{} where a list belongs"),
        ({"sizes": 4}, "4 where an object belongs"),
        ({"colour": 1}, "'colour' is no member of"),
    ],
)
def test_what_is_of_another_form_is_refused(changes: dict[str, Any], message: str) -> None:
    """The message says what is there and what belongs there."""
    check_payload(KERNEL, Kernel)
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        check_payload(KERNEL | changes, Kernel)


def test_a_member_that_is_missing_is_named() -> None:
    """Unless it is optional."""
    with pytest.raises(ValueError, match=r"^no 'grid' in "):
        check_payload({name: value for name, value in KERNEL.items() if name != "grid"}, Kernel)


def test_counts_are_not_negative() -> None:
    """Signed numbers are the kernels' arguments."""
    calls = payload_of(COUNTS, STATISTICS)
    check_payload(COUNTS, calls)
    with pytest.raises(ValueError, match=r"^-3 where a count belongs$"):
        check_payload(COUNTS | {"modelled": {"cudaMalloc": -3}}, calls)


@pytest.mark.parametrize("value", [None, [], {}, {"kind": 7}, {"kind": "magic", "name": "x"}])
def test_what_is_no_payload_is_refused(value: object) -> None:
    """Whatever JSON says."""
    with pytest.raises(ValueError, match=r"has no kind$|is none of docs/records\.md$"):
        payload_of(value, SIGNATURES)
