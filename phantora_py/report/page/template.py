"""Fills the templates of pages and writes them: one file each, that needs nothing else."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2

from phantora_py.report.page.text import FILTERS
from sim_server.files.output_file import require_output, write_file

_ASSETS = Path(__file__).parent / "assets"


def fill(template: str, views: Mapping[str, Any], folder: Path | None = None) -> str:
    """A page. Everything in `views` is escaped. `folder`: has templates beside the report's."""
    return _environment(folder).get_template(template).render(views)


@functools.cache
def _environment(folder: Path | None) -> jinja2.Environment:
    """Templates that are read once."""
    folders = [_ASSETS] if folder is None else [folder, _ASSETS]
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folders),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= FILTERS
    # Ours alone: these go into the page as they are.
    environment.globals["asset"] = lambda name: (_ASSETS / name).read_text(encoding="utf-8")
    return environment


def write(path: Path, make: Callable[[], str], inputs: Sequence[Path]) -> int:
    """Write what `make` makes of data files. Returns its size in bytes.

    Raises: UsageError if `path` cannot be written, or is one of the `inputs`.
    """
    require_output(path, "--html", inputs)
    content = make().encode()
    write_file(path, content, "--html")
    return len(content)
