"""Reads the HTML report as a browser would: elements, their text, tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

from phantora_py.data import RunData
from phantora_py.report.page.render import write_page

_EMPTY = {"meta", "link", "input", "br", "img", "hr"}


@dataclass
class Element:
    """An element of the page."""

    tag: str
    attributes: dict[str, str] = field(default_factory=dict)
    content: list[Element | str] = field(default_factory=list)

    def all(self, tag: str) -> Iterator[Element]:
        """Elements of this name within, in order."""
        for child in self.content:
            if isinstance(child, Element):
                if child.tag == tag:
                    yield child
                yield from child.all(tag)

    @property
    def text(self) -> str:
        """What is within, white space made single."""
        parts = (one.text if isinstance(one, Element) else one for one in self.content)
        return " ".join(" ".join(parts).split())

    def rows(self) -> list[list[str]]:
        """The rows of the tables within, as text."""
        rows = [row for body in self.all("tbody") for row in body.all("tr")]
        return [[cell.text for cell in row.all("td")] for row in rows]


class _Parser(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open = [Element("page")]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, {name: value or "" for name, value in attrs})
        self.open[-1].content.append(element)
        if tag not in _EMPTY:
            self.open.append(element)

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1].tag == tag, f"</{tag}> closes <{self.open[-1].tag}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1].content.append(data)


def parse(text: str) -> Element:
    """The page; fails if its elements are not well nested."""
    parser = _Parser()
    parser.feed(text)
    parser.close()
    assert len(parser.open) == 1, f"<{parser.open[-1].tag}> is not closed"
    return parser.open[0]


def page_of(data: RunData, path: Path) -> Element:
    """The page of a run, written to a file and read again."""
    write_page(data, path)
    return parse(path.read_text(encoding="utf-8"))


def section(page: Element, identifier: str) -> Element:
    """A section of the page."""
    return next(one for one in page.all("section") if one.attributes["id"] == identifier)
