"""The cache's file: what is added stays, whoever writes; what is damaged is not read."""

from __future__ import annotations

import contextlib
import dataclasses
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from caches import H100, make_cache, measurement, product

from sim_server.errors import UsageError
from sim_server.timing_cache import (
    Damaged,
    Environment,
    Failure,
    Measurement,
    TimingCache,
    set_aside,
)

WRITER = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[3])
from caches import H100, measurement, product
from sim_server.timing_cache import TimingCache
for number in range(40):
    with TimingCache(Path(sys.argv[1]), write=True) as cache:
        cache.add([(H100, measurement(product(number + 1), 100.0, origin=sys.argv[2]))])
"""


def test_what_is_added_is_there(tmp_path: Path) -> None:
    """Measurements of one signature are one entry; one that is there already is not added."""
    first = measurement(product(8), 100.0, 110.0, 120.0, cold_ns=(200.0,))
    later = measurement(product(8), 130.0, date="2026-02-02T00:00:00", origin="other")
    path = make_cache(tmp_path / "c", first, measurement(product(16), 50.0))
    old = dataclasses.replace(H100, cuda="12.8")
    with TimingCache(path, write=True) as cache:
        assert len(cache.add([(H100, first), (H100, later), (old, first)])) == 2
    with TimingCache(path) as cache:
        entries = cache.entries()
    assert [(one.environment.cuda, one.signature["m"]) for one in entries] == [
        *(("12.8", 8), ("13.2", 8), ("13.2", 16))
    ]
    entry = entries[1]
    assert (entry.warm_ns, entry.cold_ns) == ([100.0, 110.0, 120.0, 130.0], [200.0])
    assert (entry.median_ns, entry.date) == (115.0, "2026-02-02T00:00:00")
    assert entry.spread == pytest.approx(15 / 2 / 115)


def test_writers_at_one_time_lose_nothing_and_readers_see_whole_entries(tmp_path: Path) -> None:
    """Three processes that make and fill one file while it is read again and again."""
    path, script = tmp_path / "c", tmp_path / "writer.py"
    script.write_text(WRITER)
    here = str(Path(__file__).parent)
    writers = [
        subprocess.Popen([sys.executable, str(script), str(path), name, here]) for name in "abc"
    ]
    seen = 0
    while any(writer.poll() is None for writer in writers):
        if path.exists():
            with TimingCache(path) as cache:
                found = sum(len(entry.measurements) for entry in cache.entries())
            assert found >= seen
            seen = found
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    with TimingCache(path) as cache:
        entries = cache.entries()
    assert len(entries) == 40
    assert {len(entry.measurements) for entry in entries} == {3}


def test_a_batch_is_added_whole_or_not_at_all(tmp_path: Path) -> None:
    """An error in the middle leaves nothing behind."""
    path = make_cache(tmp_path / "c", measurement(product(1), 1.0))

    def failing() -> Iterator[tuple[Environment, Measurement]]:
        yield H100, measurement(product(2), 1.0)
        raise RuntimeError("the source of measurements failed")

    with TimingCache(path, write=True) as cache, pytest.raises(RuntimeError, match="failed"):
        cache.add(failing())
    with TimingCache(path) as cache:
        assert len(cache.entries()) == 1


@pytest.mark.parametrize("kept", [0, 50, 1000, 4096, 9000, -1])
def test_a_truncated_file_is_damaged(tmp_path: Path, kept: int) -> None:
    """Wherever it ends: it is not taken for an empty or a smaller cache. What is too short to be
    known as a cache is not called one.
    """
    many = [measurement(product(size), 1.0 * size) for size in range(1, 60)]
    path = make_cache(tmp_path / "c", *many)
    content = path.read_bytes()
    path.write_bytes(content[:kept])
    with pytest.raises(UsageError if 0 <= kept < 100 else Damaged):
        read(path)


def test_a_changed_byte_is_damage(tmp_path: Path) -> None:
    """Also in a number, where the file's structure stays whole."""
    path = make_cache(tmp_path / "c", measurement(product(8), 123456.0))
    content = path.read_bytes()
    assert content.count(b"123456.0") >= 1
    path.write_bytes(content.replace(b"123456.0", b"923456.0"))
    with pytest.raises(Damaged, match=r"measurement 1 is not what was written|SQLite finds"):
        read(path)


def test_other_files_are_refused(tmp_path: Path) -> None:
    """None there, another program's database, a text, and a format of later versions."""
    with pytest.raises(UsageError, match="no such file"):
        TimingCache(tmp_path / "none")
    with sqlite3.connect(tmp_path / "other") as connection:
        connection.execute("CREATE TABLE t (a)")
    connection.close()
    with pytest.raises(UsageError, match="no timing cache: it is a database of another program"):
        TimingCache(tmp_path / "other")
    (tmp_path / "text").write_text("hello " * 100)
    with pytest.raises(UsageError, match="no timing cache: it does not begin as one"):
        TimingCache(tmp_path / "text")
    path = make_cache(tmp_path / "c")
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 5")
    connection.close()
    with pytest.raises(UsageError, match="format 5"):
        TimingCache(path)


def test_what_failed_is_kept_beside_what_was_measured(tmp_path: Path) -> None:
    """It is no measurement, so that nobody takes a time from it, and can be removed."""
    one = measurement(product(8), 100.0)
    what = (product(9), "the executor died of it", "2026-01-02T03:04:05", "a test")
    failure, late = Failure(*what), Failure(*what, limit_s=2.5)
    assert "limit_s" not in failure.to_json()  # as those of format 3 are
    path = make_cache(tmp_path / "c", one)
    with TimingCache(path, write=True) as cache:
        added = cache.add([(H100, one), (H100, failure), (H100, failure), (H100, late)])
        assert added == [(H100, failure), (H100, late)]
    with TimingCache(path, write=True) as cache:
        assert list(cache.measurements(H100.gpu)) == [(H100, one)]
        assert list(cache.failures(H100.gpu)) == [(H100, late), (H100, failure)]
        assert len(cache.entries()) == 1
        assert len(cache.remove(cache.rows())) == 3


@pytest.mark.parametrize("old_version", [1, 2, 3])
def test_a_file_of_the_first_version_is_read_and_goes_on_as_one_of_today(
    old_version: int, tmp_path: Path
) -> None:
    """What measurements did not tell then is not known; rows of both kinds can be removed."""
    one = measurement(product(8), 100.0)
    path = make_cache(tmp_path / "c", one)

    def version() -> int:
        with contextlib.closing(sqlite3.connect(path)) as connection:
            return int(connection.execute("PRAGMA user_version").fetchone()[0])

    with contextlib.closing(sqlite3.connect(path)) as connection:
        (content,) = connection.execute("SELECT content FROM measurement").fetchone()
        connection.execute(f"PRAGMA user_version = {old_version}")
    assert "temperature_c" not in content
    with TimingCache(path) as cache:
        assert list(cache.measurements()) == [(H100, one)]
    assert version() == old_version
    warm = measurement(product(9), 100.0, temperature_c=55, memory_khz=2_619_000, outliers=1)
    with TimingCache(path, write=True) as cache:
        cache.add([(H100, warm)])
        assert {found.key: found for _, found in cache.measurements()} == {
            one.key: one,
            warm.key: warm,
        }
        assert len(cache.remove([(H100, one), (H100, warm)])) == 2
    assert version() == 4


def test_what_is_set_aside_is_out_of_the_way(tmp_path: Path) -> None:
    """The name is free for a new cache and the damaged content is kept; twice is no error."""
    path = tmp_path / "c"
    path.write_bytes(b"broken")
    aside = set_aside(path)
    assert aside.read_bytes() == b"broken"
    assert not path.exists()
    set_aside(path)
    make_cache(path)


def test_removal(tmp_path: Path) -> None:
    """Only what is named goes."""
    one, other = measurement(product(8), 1.0), measurement(product(9), 1.0)
    path = make_cache(tmp_path / "c", one, other)
    with TimingCache(path, write=True) as cache:
        wanted = [(H100, one), (dataclasses.replace(H100, cuda="1"), other)]
        assert cache.remove(wanted) == wanted[:1]
        assert [entry.signature["m"] for entry in cache.entries()] == [9]


@pytest.mark.parametrize("samples", [(), (0.0,), (-1.0, 2.0)])
def test_no_measurement_without_time(samples: tuple[float, ...]) -> None:
    """A kernel that took nothing was not measured."""
    with pytest.raises(ValueError, match="above 0"):
        measurement(product(8), *samples)


def read(path: Path) -> None:
    with TimingCache(path) as cache:
        cache.entries()
