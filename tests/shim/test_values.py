"""Copies and small fills keep their bytes; what a kernel may have written reads as zeros."""

from __future__ import annotations

from pathlib import Path

import pytest
from code_objects import has_zstd
from rank_runs import RankRun

from sim_server.gpu import load_gpu


@pytest.mark.parametrize(
    ("scenario", "expected", "synthetic_bytes"),
    [
        (
            "round_trip",
            {"small": b"abc".hex(), "edge": "True", "large_start": "00010203", "large": "True"},
            [],
        ),
        (
            "partial",
            {"memory": "0000000011111111" + "00" * 8, "moved": "0000000011111111" + "00" * 8},
            [12, 12],
        ),
        (
            "uploads",
            {"read": "01 02 03 04 05 06 07 08", "last of the others": "00"},
            [1],
        ),
        (
            "large_reads",
            {
                **{"written": "True", "partly": "11" * 8 + "00" * 4, "rest": "True"},
                "untouched": "True",
            },
            [256 << 10, (256 << 10) - 8, 256 << 10],
        ),
        ("fills", {"memory": "3333444444443333"}, []),
        ("overlap", {"memory": "0001000102030405"}, []),
        ("reused_source", {"memory": "before"}, []),
        ("pinned", {"host": "55" * 8, "device": "55" * 8}, []),
        ("freed", {"same_place": "True", "memory": "00" * 8}, [8]),
    ],
)
def test_copies_and_fills(
    tmp_path: Path, scenario: str, expected: dict[str, str], synthetic_bytes: list[int]
) -> None:
    """What a scenario reads back, and how much of it was made up."""
    run = RankRun("values_rank.py", scenario, tmp_path)
    assert run.results == [expected]
    assert run.synthetic_bytes() == synthetic_bytes


def test_launches_forget_what_they_may_have_written(tmp_path: Path) -> None:
    """However an argument leads to known memory, only what is read alone stays known."""
    run = RankRun("values_rank.py", "launches", tmp_path, settings=load_gpu("h100").shim_keys())
    known, unknown = "77" * 8, "00" * 8
    (result,) = run.results
    assert result == {
        "read": known,
        "bystander": known,
        **{name: unknown for name in ("written", "plain", "number", "held", "listed", "after")},
        **{name: unknown for name in ("low_first", "high_first", "apart", "packed", "in_middle")},
    }
    assert run.synthetic_bytes() == [8] * 11


@pytest.mark.parametrize("scenario", ["sized", "packed"])
def test_parameters_end_where_their_code_object_says(tmp_path: Path, scenario: str) -> None:
    """What lies behind a structure, and behind the list of arguments, is not written."""
    if scenario == "packed" and not has_zstd():
        pytest.skip("there is no libzstd here")
    run = RankRun("values_rank.py", scenario, tmp_path, settings=load_gpu("h100").shim_keys())
    known, unknown = "77" * 8, "00" * 8
    (result,) = run.results
    assert result == {"held": unknown, "behind": known, "plain": unknown, "after": known}


def test_lookups_write_their_results_alone(tmp_path: Path) -> None:
    """What a forward kernel of FBGEMM's only reads stays known, and its divisor points nowhere.
    Those of inference have their results elsewhere, so that all may be written.
    """
    run = RankRun("values_rank.py", "lookups", tmp_path, settings=load_gpu("h100").shim_keys())
    known = ("weights", "beside", "indices", "offsets", "int_nbit_beside")
    written = (
        "results",
        *(f"int_nbit_{one}" for one in ("weights", "indices", "offsets", "results")),
    )
    (result,) = run.results
    assert result == {name: "77" * 8 for name in known} | {name: "00" * 8 for name in written}


def test_a_concatenation_reads_its_inputs_alone(tmp_path: Path) -> None:
    """What else is in its arguments was never set: it is no memory that the kernel writes."""
    run = RankRun("values_rank.py", "concatenated", tmp_path, settings=load_gpu("h100").shim_keys())
    assert run.results == [{}]
    assert run.synthetic_bytes() == []


def test_a_concatenation_of_more_than_there_is_leaves_nothing_known(tmp_path: Path) -> None:
    """Its structure is not what its name promises."""
    settings = load_gpu("h100").shim_keys()
    run = RankRun("values_rank.py", "garbled_concatenation", tmp_path, settings=settings)
    assert run.results == [{"output": "00" * 8}]
    assert run.synthetic_bytes() == [8]


def test_launches_may_write_what_earlier_ones_were_given(tmp_path: Path) -> None:
    """Not what these could only read, nor what was freed since."""
    run = RankRun(
        "values_rank.py", "kept_addresses", tmp_path, settings=load_gpu("h100").shim_keys()
    )
    known = ("before", "read", "given again", "freed", "bystander")
    (result,) = run.results
    assert result == {name: "77" * 8 for name in known} | {"after": "00" * 8}
    assert run.synthetic_bytes() == [8]


def test_launches_may_write_where_numbers_point(tmp_path: Path) -> None:
    """Wherever on the device the address is by now."""
    run = RankRun("values_rank.py", "numbers", tmp_path, settings=load_gpu("h100").shim_keys())
    known = ("before", "written again", "bystander")
    (result,) = run.results
    assert result == {name: "77" * 8 for name in known} | {"after": "00" * 8}
    assert run.synthetic_bytes() == [8]
