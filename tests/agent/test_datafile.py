"""The data file: complete or not there."""

import json
import zipfile
from pathlib import Path

from phantora_py.agent.datafile import DataFile


def test_members_come_in_pieces(tmp_path: Path) -> None:
    """Pieces of a member are joined; run.json and the digest are kept."""
    path = tmp_path / "a.phr"
    data = DataFile(path)
    data.write("spans.npy", b"ab", last=False)
    data.write("spans.npy", b"cd", last=True)
    data.write("digest", b"0123", last=True)
    assert not path.exists()
    data.complete({"schema": 1})
    with zipfile.ZipFile(path) as archive:
        assert archive.read("spans.npy") == b"abcd"
        assert json.loads(archive.read("run.json")) == {"schema": 1}
    assert data.digest == "0123"
    assert list(tmp_path.iterdir()) == [path]


def test_an_interrupted_run_leaves_no_file(tmp_path: Path) -> None:
    """A file that looks like a run's must be a whole one; an older one stays."""
    path = tmp_path / "a.phr"
    path.write_text("older")
    data = DataFile(path)
    data.write("spans.npy", b"ab", last=False)
    data.discard()
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_text() == "older"
