"""The sections of a report: one list for all views."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from made_runs import make_run

from phantora_py.cli import main
from phantora_py.report import summary
from phantora_py.report.page import template
from phantora_py.report.page.part import PagePart
from phantora_py.report.page.render import make_page
from phantora_py.report.summary import SECTIONS, Section


@pytest.fixture
def assets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of the templates, which are read anew."""
    folder = tmp_path / "assets"
    shutil.copytree(template._ASSETS, folder)
    monkeypatch.setattr(template, "_ASSETS", folder)
    template._environment.cache_clear()
    yield folder
    template._environment.cache_clear()


def test_a_row_and_a_template_make_a_section(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    assets: Path,
) -> None:
    """It is on the terminal and on the page, where the list has it."""
    part = PagePart("extra", "An extra", lambda found: {"count": found.data.ranks})
    (assets / "extra.html").write_text("<section id=extra>{{ count }} here</section>")
    row = Section(lambda run: [f"[bold]extra[/] of {run['ranks']}"], part)
    monkeypatch.setattr(summary, "SECTIONS", (row, *SECTIONS))
    data = make_run(tmp_path / "a.phr", [(), ()])
    assert main(["report", str(data.path)]) == 0
    assert capsys.readouterr().out.startswith("extra of 2\n2 ranks on 1 node")
    page = make_page(data)
    assert page.index('<a href="#extra">An extra</a>') < page.index('<a href="#iteration">')
    assert page.index("<section id=extra>2 here</section>") < page.index('id="iteration"')


def test_names_of_two_sections_do_not_mix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, assets: Path
) -> None:
    """What one shows cannot hide what another shows."""
    (assets / "extra.html").write_text("")
    part = PagePart("extra", "An extra", lambda _: {"kernels": []})
    monkeypatch.setattr(summary, "SECTIONS", (*SECTIONS, Section(page=part)))
    with pytest.raises(AssertionError, match="extra has names of others"):
        make_page(make_run(tmp_path / "a.phr"))
