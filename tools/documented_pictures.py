"""Pictures of the documentation: made of a run's files, compared with those by what they show.

A screenshot is not the same from browser to browser. It keeps the words and figures of the part of
the page that it shows, as its description, and these are compared.
"""

from __future__ import annotations

import html
import re
import shutil
import struct
import subprocess
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path

_SIZE = (1200, 1290)
_HEAD = b"\x89PNG\r\n\x1a\n"
_KEYWORD = b"Description\0"
# Not packed, in no language, without a translated keyword.
_PLAIN = b"\0\0\0\0"


def picture_differs(source: Path, picture: Path) -> bool:
    """Whether the picture is of something else than what the run wrote."""
    if not picture.is_file():
        return True
    if picture.suffix == ".png":
        return description_of(picture.read_bytes()) != shown_text(source.read_text("utf-8"))
    return picture.read_bytes() != source.read_bytes()


def write_picture(source: Path, picture: Path) -> None:
    """Leaves a picture that shows the same as it is."""
    if not picture_differs(source, picture):
        return
    if picture.suffix == ".png":
        text = shown_text(source.read_text("utf-8"))
        picture.write_bytes(described(screenshot(source), text))
    else:
        picture.write_bytes(source.read_bytes())


def shown_text(page: str) -> str:
    """Words and figures of the first section of a report's page."""
    found = re.search(r'<section id="iteration".*?</section>', page, re.DOTALL)
    assert found is not None, "the page has no section of the iteration"
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", found[0])).split())


def screenshot(page: Path) -> bytes:
    """The top of the page as a PNG, in the light colours."""
    names = ("chromium", "chromium-browser", "google-chrome")
    browser = next(filter(None, map(shutil.which, names)), None)
    if browser is None:
        raise SystemExit("A picture has to be made anew: install chromium or google-chrome.")
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "page.png"
        size = ",".join(map(str, _SIZE))
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        options += ["--disable-background-networking", f"--user-data-dir={folder}/profile"]
        shot = [f"--window-size={size}", f"--screenshot={made}", page.as_uri()]
        subprocess.run([browser, *options, *shot], check=True, capture_output=True)
        return made.read_bytes()


def described(png: bytes, text: str) -> bytes:
    """The picture with a description after its header."""
    header = next(end for kind, _, end in _chunks(png) if kind == b"IHDR")
    body = b"iTXt" + _KEYWORD + _PLAIN + text.encode()
    chunk = struct.pack(">I", len(body) - 4) + body + struct.pack(">I", zlib.crc32(body))
    return png[:header] + chunk + png[header:]


def description_of(png: bytes) -> str:
    """Nothing if it has none."""
    for kind, content, _ in _chunks(png):
        if kind == b"iTXt" and content.startswith(_KEYWORD):
            return content.removeprefix(_KEYWORD + _PLAIN).decode()
    return ""


def _chunks(png: bytes) -> Iterator[tuple[bytes, bytes, int]]:
    """Kind and content of each, and where it ends."""
    at = len(_HEAD)
    while at < len(png):
        (length,) = struct.unpack_from(">I", png, at)
        end = at + 12 + length
        yield png[at + 4 : at + 8], png[at + 8 : end - 4], end
        at = end
