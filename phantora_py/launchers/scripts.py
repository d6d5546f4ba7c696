"""Which launcher a shell script, a makefile or a wrapper's command line calls, by their text.

`bash run.sh`, `./run.sh`, `make train`, `env A=1 torchrun ...`. A script that it calls by the name
of a file is looked into as well.
"""

import os
import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from phantora_py.launchers.recognise import called_launcher

_MAKEFILES = ("GNUmakefile", "makefile", "Makefile")
_MOST_BYTES = 1 << 20
_MOST_DEPTH = 4
_FILE_NAME = re.compile(r"[\w./+-]*\.(?:sh|bash|zsh|mk|sbatch|slurm)\b")


def script_launcher(words: Sequence[str]) -> str | None:
    """The launcher that a command calls somewhere, which is none itself; None if it calls none.

    What Python programs say does not count: they are started once per rank.
    """
    found = called_launcher(" ".join(words[1:]))
    if found is not None:
        return found
    program = shutil.which(words[0])
    files = [Path(program)] if program else []
    files += [Path(word) for word in words[1:]]
    if os.path.basename(words[0]) in ("make", "gmake"):
        files += [Path(name) for name in _MAKEFILES]
    seen: set[Path] = set()
    return next(filter(None, (_of_file(file, seen, 0) for file in files)), None)


def _of_file(file: Path, seen: set[Path], depth: int) -> str | None:
    if depth > _MOST_DEPTH or file.suffix == ".py" or file in seen:
        return None
    seen.add(file)
    text = _text(file)
    if text is None or re.match(r"#!.*python", text):
        return None
    found = called_launcher(text)
    if found is not None:
        return found
    named = (_of_file(one, seen, depth + 1) for one in _named_files(text, file))
    return next(filter(None, named), None)


def _named_files(text: str, file: Path) -> Iterator[Path]:
    for name in dict.fromkeys(_FILE_NAME.findall(text)):
        yield Path(name)
        yield file.parent / name
        yield file.parent / name.lstrip("/")  # after "$DIRECTORY"


def _text(file: Path) -> str | None:
    """None for what is no file of text."""
    try:
        if not file.is_file() or file.stat().st_size > _MOST_BYTES:
            return None
        content = file.read_bytes()
    except OSError:
        return None
    return None if b"\0" in content else content.decode("utf-8", "replace")


def job_script(words: Sequence[str]) -> str | None:
    """The text of a script with #SBATCH lines that a command names; None if it names none."""
    texts = (_text(Path(shutil.which(word) or word)) for word in words)
    return next((text for text in texts if text and re.search("^#SBATCH", text, re.M)), None)
