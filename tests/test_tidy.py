"""The rules of tools/tidy.py hold, and each notices what breaks it."""

from __future__ import annotations

from pathlib import Path

import pytest
import tidy

LONG = "def f() -> None:\n" + "    pass\n" * tidy.MOST_FUNCTION_LINES
SEVEN = ("errors", "files", "records", "gpu", "cluster", "settings", "service")
# What is planted, by file, and what is said of it.
PLANTED = [
    ({"phantora_py/text.py": ""}, "1 modules lie loose, 0 are the most: move one into the folder"),
    (
        {f"sim_server/{name}.py": "" for name in SEVEN},
        "7 modules lie loose, 6 are the most: move one into the folder",
    ),
    (
        {
            "phantora_py/data/a.py": "from phantora_py.report.b import c",
            "phantora_py/report/b.py": "",
        },
        "phantora_py.data imports phantora_py.report, which does not lie below it: what both need",
    ),
    (
        {"sim_server/gpu/a.py": "def f():\n    import phantora_py.cli", "phantora_py/cli/b.py": ""},
        "a.py:2: sim_server.gpu imports phantora_py.cli, which does not lie below it",
    ),
    ({"phantora_py/shed/a.py": ""}, "the room phantora_py.shed has no layer: give it one"),
    (
        {
            "phantora_py/data/a.py": "from ..report import b",
            "phantora_py/report/b.py": "",
        },
        "phantora_py.data imports phantora_py.report, which does not lie below it",
    ),
    (
        {"phantora_py/data/a.py": "from phantora_py import open"},
        "phantora_py.data imports phantora_py, which does not lie below it",
    ),
    (
        {"csrc/engine/a.cc": '#include <map>\n#include "bindings/b.h"'},
        "a.cc:2: csrc/engine includes csrc/bindings, which does not lie below it",
    ),
    (
        {"csrc/shim/cuda/a.cc": '#include "shim/cudart/b.h"'},
        "csrc/shim/cuda includes csrc/shim/cudart, which does not lie below it",
    ),
    (
        {"csrc/shim/channel/a.cc": '#include "shim/core/b.h"\n#include "shim/graph/b.h"'},
        "a.cc:2: csrc/shim/channel includes csrc/shim/graph, which does not lie below it",
    ),
    (
        {"csrc/shim/graph/a.h": '#include "shim/waiting/b.h"'},
        "a.h:1: csrc/shim/graph includes csrc/shim/waiting, which does not lie below it",
    ),
    (
        {"csrc/engine/a.h": "// int end_ns\nstd::vector<Nanoseconds> ends_ns;\nlong end_ns_ = 0;"},
        "a.h:3: end_ns_ is a long: times and durations are Nanoseconds",
    ),
    (
        {"csrc/engine/a.cc": "const std::uint64_t& Rank::end_ns() { return end_ns; }"},
        "a.cc:1: end_ns is a std::uint64_t: times and durations are Nanoseconds",
    ),
    (
        {"csrc/engine/a.cc": "auto end_ns = f(); std::atomic<std::uint64_t> end_ns{1};"},
        "a.cc:1: end_ns is a std::atomic<std::uint64_t>: times and durations are Nanoseconds",
    ),
    (
        {"csrc/engine/a.cc": "constexpr std::int64_t kLongNs = 5;"},
        "a.cc:1: kLongNs is a std::int64_t: times and durations are Nanoseconds",
    ),
    ({"csrc/shim/a.cc": ""}, "the room csrc/shim has no layer: give it one"),
    ({"csrc/engine/a.cc": "\n" * 501}, "a.cc: 501 lines, 500 are the most: part its two ideas"),
    ({"tests/a.py": LONG}, "f has 71 lines, 70 are the most: name its parts"),
    ({"docs/a.md": "It is a matter of luck."}, "a.md:1: 'a matter of luck' is not to be used: say"),
    ({"tests/mixer.py": ""}, "mixer.py:0: 'mixer' is not to be used: say"),
    (
        {"tests/agent/test_a.py": "", "tests/cli/test_a.py": ""},
        "tests/cli/test_a.py: tests/agent/test_a.py has the same name, which pytest refuses",
    ),
    ({"docs/a.md": "`sim_server.gone.away`"}, "sim_server.gone.away is not there: say where it is"),
    ({"docs/a.md": "see csrc/gone.cc"}, "csrc/gone.cc is not there: say where it is now"),
]


def test_the_repository() -> None:
    """Nothing in it breaks a rule."""
    assert list(tidy.findings(tidy.ROOT, tidy.listed())) == []


def test_a_room_has_one_layer() -> None:
    """And each that has one is there."""
    rooms = [room for rooms in tidy.LAYERS + tidy.INCLUDES for room in rooms]
    assert len(rooms) == len(set(rooms))
    for room in rooms:
        path = tidy.ROOT / room.replace(".", "/")
        assert path.is_dir() or path.with_suffix(".py").is_file(), room


def test_exceptions_are_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an exception its rule is broken: one that is not needed any more is to go."""
    for exception in list(tidy.LONG_FUNCTIONS):
        with monkeypatch.context() as without:
            without.delitem(tidy.LONG_FUNCTIONS, exception)
            assert list(tidy.findings(tidy.ROOT, [exception.split()[0]])), exception
    for exception in list(tidy.OTHER_TIMES):
        with monkeypatch.context() as without:
            without.delitem(tidy.OTHER_TIMES, exception)
            assert list(tidy.findings(tidy.ROOT, [exception.split()[0]])), exception


@pytest.mark.parametrize(("files", "said"), PLANTED)
def test_what_breaks_a_rule(tmp_path: Path, files: dict[str, str], said: str) -> None:
    """One sentence says what it is, and where the thing belongs."""
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    (found,) = tidy.findings(tmp_path, list(files))
    assert said in found
