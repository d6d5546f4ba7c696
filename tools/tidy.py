"""The rules of the repository: `python tools/tidy.py` prints what breaks one.

Rooms are the folders of `sim_server`, `phantora_py`, `csrc` and `csrc/shim`, and the modules that
lie loose in the first two. Imports within functions count: they hide a knot, they do not undo it.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[1]

# A room may import those of the lines above its own, and nothing of its own line but itself.
LAYERS = (
    (
        "sim_server",
        "sim_server.errors",
        "phantora_py.text",
        "phantora_py.machine",
        "phantora_py.rank",
    ),
    ("sim_server.files", "sim_server.records", "phantora_py.isolation"),
    ("sim_server.chakra",),
    (
        "sim_server.timing_cache",
        "sim_server.cpu",
        "sim_server.gpu",
        "sim_server.deadlock",
        "phantora_py.launchers",
    ),
    ("sim_server.lookups", "sim_server.cluster", "sim_server.processes"),
    ("sim_server.kernels",),
    ("sim_server.network", "phantora_py.cache"),
    ("sim_server.collectives",),
    ("sim_server.fold",),
    ("sim_server.settings", "phantora_py.bench"),
    ("sim_server.timings", "sim_server.log", "sim_server.access", "phantora_py.calibrate"),
    ("sim_server.communicators",),
    ("sim_server.simulation", "phantora_py.data"),
    ("sim_server.service", "sim_server.sources", "phantora_py.launch"),
    ("sim_server.__main__",),
    (
        "phantora_py.agent",
        "phantora_py.sweep",
        "phantora_py.coverage",
        "phantora_py.traces",
        "phantora_py.plan",
    ),
    ("phantora_py.hosts",),
    ("phantora_py.report", "phantora_py.runs"),
    ("phantora_py.tables", "phantora_py.compare", "phantora_py.profile", "phantora_py.replay"),
    ("phantora_py.advice", "phantora_py.api"),
    ("phantora_py", "phantora_py.cli"),
    ("phantora_py.__main__",),
)
# The same for what `csrc` includes.
INCLUDES = (
    ("csrc/protocol", "csrc/launcher"),
    ("csrc/engine", "csrc/shim/core", "csrc/shim/kernels"),
    ("csrc/network", "csrc/shim/channel"),
    ("csrc/shim/python", "csrc/shim/graph"),
    ("csrc/shim/host_time", "csrc/shim/modules"),
    ("csrc/shim/values", "csrc/shim/libc", "csrc/shim/counting"),
    ("csrc/shim/profiling",),
    ("csrc/shim/memory", "csrc/shim/waiting"),
    ("csrc/shim/streams", "csrc/shim/launch"),
    ("csrc/shim/calls",),
    (
        "csrc/bindings",
        "csrc/shim/cublas",
        "csrc/shim/cuda",
        "csrc/shim/cudart",
        "csrc/shim/cudnn",
        "csrc/shim/cupti",
        "csrc/shim/cufft",
        "csrc/shim/cusparse",
        "csrc/shim/nccl",
        "csrc/shim/nvml",
        "csrc/shim/nvrtc",
    ),
    ("csrc/shim/cublasLt", "csrc/shim/cusolver"),
)
# Compiled or generated, and the packages themselves, which know their version and folder.
EVERYBODYS = re.compile(r"(sim_server|phantora_py)(\._\w+|\.simulation_pb2\w*)?")

MOST_LOOSE = {"phantora_py": 0, "sim_server": 6}
MOST_FILE_LINES = 500
MOST_FUNCTION_LINES = 70
# Functions that are longer, each with its reason.
LONG_FUNCTIONS = {
    "phantora_py/cli/run.py add_arguments": "a list of options",
}

# Times in C++ that are no Nanoseconds, each with its reason.
OTHER_TIMES = {
    "csrc/protocol/record_kinds.h host_gap_ns": "the record's layout has it unsigned",
}

# Private words, and what the field says.
WORDS = {
    "a matter of luck": "differs from run to run",
    "how-maniest": "the number of",
    "prospects": "what the module does, as program_check",
    "hangs on": "depends on",
    "gets on": "makes progress",
    "mixer": "what it does, as line_merger",
    "stirs": "wakeups",
}
_SOURCES = (".py", ".pyi", ".cc", ".h", ".c", ".md", ".toml", ".proto")
_INCLUDE = re.compile(r'\s*#\s*include\s+"([^"]+)"')
# A declaration of a time, without comments and literals: the type, and the name of what has it.
_TIME = re.compile(
    r"\b([\w:]+(?:<[^;(){}]*>)?)[&*]{0,2}\s+(?:\w+::)*(\w+_ns_?|k[A-Z]\w*Ns)\b(?!::)"
)
_NO_TYPES = ("auto", "return", "else", "case", "throw")
_NO_CODE = re.compile(r"""//.*|'(?:\\.|[^'\\])'|"(?:\\.|[^"\\])*"|/\*.*?\*/""")
_MODULE = re.compile(r"\b(phantora_py|sim_server)((?:\.[A-Za-z_]\w*)+)")
_PATH = re.compile(
    r"(?<![\w/])((?:phantora_py|sim_server|csrc)/[\w/.-]+\.(?:py|pyi|cc|h|md|toml))\b"
)


def findings(root: Path, names: list[str]) -> Iterator[str]:
    """A sentence for each breach in these files (paths below `root`)."""
    generated = re.compile(
        r"simulation_pb2|execution_trace_pb2|^csrc/protocol/payloads\.h$|^tools/tidy\.py$|^tests/test_tidy\.py$"
    )
    texts = {
        name: (root / name).read_text(encoding="utf-8")
        for name in names
        if name.endswith(_SOURCES) and not generated.search(name)
    }
    modules = {
        name: ast.parse(text)
        for name, text in texts.items()
        if name.endswith(".py") and name.startswith(tuple(MOST_LOOSE))
    }
    yield from _loose(names)
    yield from _namesakes(names)
    for name, tree in modules.items():
        yield from _imports(root, name, tree)
    for name, text in texts.items():
        if name.startswith("csrc/") and name.endswith((".cc", ".h", ".c")):
            yield from _includes(name, text)
            yield from _times(name, text)
    for name, text in texts.items():
        yield from _sizes(name, text)
        yield from _words(name, text)
        yield from _names(root, name, text)


def _loose(names: list[str]) -> Iterator[str]:
    for package, most in MOST_LOOSE.items():
        found = [name for name in names if re.fullmatch(rf"{package}/[a-z]\w*\.py", name)]
        found = [name for name in found if "_pb2" not in name]
        if len(found) > most:
            yield (
                f"{package}: {len(found)} modules lie loose, {most} are the most: move one into "
                f"the folder of its room ({', '.join(found)})"
            )


def _namesakes(names: list[str]) -> Iterator[str]:
    """pytest imports a test module by its bare name."""
    seen: dict[str, str] = {}
    for name in names:
        base = PurePosixPath(name).name
        if re.fullmatch(r"tests/.*/?test_\w+\.py", name):
            other = seen.setdefault(base, name)
            if other != name:
                yield f"{name}: {other} has the same name, which pytest refuses: rename one"


def room_of(root: Path, module: str) -> str:
    """The room of a module by its dotted name."""
    package, _, rest = module.partition(".")
    first = rest.partition(".")[0]
    known = (root / package / first).is_dir() or (root / package / f"{first}.py").is_file()
    return f"{package}.{first}" if first and (known or first.startswith("_")) else package


def _imports(root: Path, name: str, tree: ast.Module) -> Iterator[str]:
    module = name.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
    own = room_of(root, module)
    others = [
        (node.lineno, room_of(root, imported))
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for imported in _imported(name, node)
        if not EVERYBODYS.fullmatch(".".join(imported.split(".")[:2]))
    ]
    yield from _above(name, own, others, LAYERS)


def _imported(name: str, node: ast.Import | ast.ImportFrom) -> list[str]:
    """The dotted names that it imports of our packages, relative ones too."""
    parts: list[str] = []
    if isinstance(node, ast.ImportFrom):
        folder = PurePosixPath(name).parent.parts
        parts += folder[: len(folder) + 1 - node.level] if node.level else ()
        parts += [node.module] if node.module else []
    names = [".".join([*parts, one.name]) for one in node.names]
    return [one for one in names if one.partition(".")[0] in MOST_LOOSE]


def _includes(name: str, text: str) -> Iterator[str]:
    own = _folder_of(name)
    others = [
        (number, _folder_of(f"csrc/{found[1]}"))
        for number, line in enumerate(text.splitlines(), 1)
        if (found := _INCLUDE.match(line))
    ]
    yield from _above(name, own, others, INCLUDES)


def _folder_of(name: str) -> str:
    parts = PurePosixPath(name).parent.parts
    return "/".join(parts[: 3 if parts[:2] == ("csrc", "shim") else 2])


def _above(
    name: str, own: str, others: list[tuple[int, str]], layers: tuple[tuple[str, ...], ...]
) -> Iterator[str]:
    """What a file of the room `own` takes, by line, from rooms that do not lie below it."""
    layer_of = {room: number for number, rooms in enumerate(layers) for room in rooms}
    if own not in layer_of:
        yield f"{name}: the room {own} has no layer: give it one in tools/tidy.py"
        return
    verb = "includes" if layers is INCLUDES else "imports"
    for line, other in others:
        if other != own and layer_of.get(other, len(layers)) >= layer_of[own]:
            yield (
                f"{name}:{line}: {own} {verb} {other}, which does not lie below it: what both "
                "need belongs into a room below, what needs both into one above"
            )


def _times(name: str, text: str) -> Iterator[str]:
    """What is named as a time and has another type."""
    for number, line in enumerate(text.splitlines(), 1):
        for type_, time in _TIME.findall(_NO_CODE.sub("", line)):
            is_time = type_ in _NO_TYPES or re.search(r"\bNanoseconds\b", type_)
            if not is_time and f"{name} {time}" not in OTHER_TIMES:
                yield (
                    f"{name}:{number}: {time} is a {type_}: times and durations are Nanoseconds "
                    "(csrc/protocol/nanoseconds.h)"
                )


def _sizes(name: str, text: str) -> Iterator[str]:
    lines = len(text.splitlines())
    if lines > MOST_FILE_LINES and not name.endswith((".md", ".toml")):
        yield f"{name}: {lines} lines, {MOST_FILE_LINES} are the most: part its two ideas"
    if not name.endswith(".py"):
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or 0) - node.lineno + 1
            if lines > MOST_FUNCTION_LINES and f"{name} {node.name}" not in LONG_FUNCTIONS:
                yield (
                    f"{name}:{node.lineno}: {node.name} has {lines} lines, {MOST_FUNCTION_LINES} "
                    "are the most: name its parts"
                )


def _words(name: str, text: str) -> Iterator[str]:
    for number, line in enumerate([name, *text.splitlines()]):
        for word, better in WORDS.items():
            if re.search(rf"\b{word}\b", line.lower().replace("_", " ")):
                yield f"{name}:{number}: {word!r} is not to be used: say {better!r}"


def _names(root: Path, name: str, text: str) -> Iterator[str]:
    """Modules and files that a text names are there."""
    for found in _MODULE.finditer(text):
        if not _is_there(root / found[1], found[2][1:].split(".")):
            yield f"{name}: {found[0]} is not there: say where it is now"
    for found in _PATH.finditer(text):
        if not (root / found[1]).exists() and not (root / name).parent.joinpath(found[1]).exists():
            yield f"{name}: {found[1]} is not there: say where it is now"


def _is_there(folder: Path, parts: list[str]) -> bool:
    for part in parts:
        if (folder / part).is_dir():
            folder /= part
        elif (folder / f"{part}.py").exists() or (folder / f"{part}.pyi").exists():
            return True
        else:
            init = folder / "__init__.py"
            return part.startswith("__") or (
                init.exists() and re.search(rf"\b{part}\b", init.read_text("utf-8")) is not None
            )
    return True


def listed() -> list[str]:
    """The files of the repository."""
    words = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True)
    return [name for name in done.stdout.splitlines() if (ROOT / name).is_file()]


def main() -> int:
    """Prints what breaks a rule; 1 if anything does."""
    found = list(findings(ROOT, listed()))
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
