"""The documentation as a site (`nox -s docs`), of the files that are read as they are elsewhere."""

from typing import Any

project = "Phantora"
extensions = ["myst_parser"]
root_doc = "docs/README"
include_patterns = [
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "containers/README.md",
    "docs/**",
]
# Not searched for pages.
exclude_patterns = [".*", "build", "dist"]
myst_heading_anchors = 3
highlight_language = "none"
html_theme = "furo"
html_title = project
html_show_copyright = False
html_copy_source = False
# At the root of the site, for who reads JSON: summary.schema.json.
html_extra_path = ["schemas"]

_CONTENTS = """
```{toctree}
:hidden:
:glob:

../README
tutorial
report
compare
trace
tables
reference
*
../containers/README
../CONTRIBUTING
../CHANGELOG
```

```{toctree}
:hidden:
:glob:
:caption: Decisions

decisions/*
```
"""


def _add_contents(_: Any, name: str, content: list[str]) -> None:
    """The side bar: all pages, which the index need not say where it is read as it is."""
    if name == root_doc:
        content[0] += _CONTENTS


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("source-read", _add_contents)
