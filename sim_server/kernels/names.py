"""Mangled kernel names, taken apart: family, template arguments, number types."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

# Bytes of the number types that occur in PyTorch's kernel names.
_TYPE_BYTES = {
    "double": 8,
    "long": 8,
    "unsigned long": 8,
    "long long": 8,
    "unsigned long long": 8,
    "c10::complex<double>": 16,
    "c10::complex<float>": 8,
    "c10::complex<c10::Half>": 4,
    "float": 4,
    "int": 4,
    "unsigned int": 4,
    "c10::qint32": 4,
    "c10::Half": 2,
    "__half": 2,
    "cutlass::half_t": 2,
    "c10::BFloat16": 2,
    "__nv_bfloat16": 2,
    "cutlass::bfloat16_t": 2,
    "short": 2,
    "unsigned short": 2,
    "signed char": 1,
    "unsigned char": 1,
    "char": 1,
    "bool": 1,
    "c10::qint8": 1,
    "c10::quint8": 1,
}
_OPAQUE = re.compile(r"OpaqueType<(\d+)u?>$")
_FLOAT8 = re.compile(r"(?:c10::Float8|cutlass::float_e[45])")
_TYPE = re.compile(
    r"c10::complex<[\w:]+>|c10::\w+|cutlass::\w+_t\b|__nv_bfloat16|__half|"
    r"\b(?:(?:unsigned |signed )?(?:long long|long|int|short|char)|float|double|bool)\b"
)
_RETURN_TYPE = re.compile(r"^(?:void|typename [^ ]+|std::enable_if<[^ ]*>::type) ")


@cache
def _demangler() -> ctypes.CDLL:
    library = ctypes.CDLL("libstdc++.so.6")
    library.__cxa_demangle.restype = ctypes.c_void_p
    return library


def demangle(name: str) -> str:
    """The C++ text of a mangled name; the name itself if it is none or is too long for the
    demangler.
    """
    if not name.startswith("_Z"):
        return name
    status = ctypes.c_int()
    text = _demangler().__cxa_demangle(name.encode(), None, None, ctypes.byref(status))
    if not text:
        return name
    try:
        return ctypes.string_at(text).decode(errors="replace")
    finally:
        free = ctypes.CDLL(None).free
        free.argtypes = [ctypes.c_void_p]
        free(text)


class TemplateArguments(tuple[str, ...]):
    """An argument that a name lacks is empty: a kernel of the program's own may be called like one
    of a library's.
    """

    __slots__ = ()

    def __getitem__(self, position: Any) -> Any:
        if isinstance(position, int) and not -len(self) <= position < len(self):
            return ""
        return super().__getitem__(position)


@dataclass(frozen=True)
class KernelName:
    """A kernel's name taken apart.

    `family` is the qualified name without template arguments, `template` its top-level template
    arguments, `text` the whole demangled name.
    """

    text: str
    family: str
    template: TemplateArguments

    @property
    def short(self) -> str:
        """Family and template arguments without namespaces, cut at 120 characters, for reports."""
        if self.family.startswith("_Z"):
            return self.family[:120]
        family = self.family.rsplit("::", 1)[-1]
        arguments = ", ".join(
            re.sub(r"(?:\w+::|\(anonymous namespace\)::)+", "", a) for a in self.template
        )
        text = f"{family}<{arguments}>" if arguments else family
        return text if len(text) <= 120 else text[:117] + "..."


@cache
def parse(mangled: str) -> KernelName:
    """The name taken apart; computed once per name."""
    text = demangle(mangled)
    end = _family_end(text)
    family = _RETURN_TYPE.sub("", text[:end])
    if end < len(text) and text[end] == "<":
        arguments = TemplateArguments(split_list(text[end + 1 : _closing(text, end)]))
        return KernelName(text, family, arguments)
    return KernelName(text, family, TemplateArguments())


def _family_end(text: str) -> int:
    """Where the template or parameter list of the kernel itself begins."""
    start = 0
    while True:
        match = re.compile(r"[<(]").search(text, start)
        if match is None:
            return len(text)
        if not text.startswith("(anonymous namespace)", match.start()):
            # A namespace's own template, as in thrust's, goes on with "::".
            close = _closing(text, match.start())
            if not text.startswith("::", close + 1):
                return match.start()
            start = close + 1
            continue
        start = match.start() + len("(anonymous namespace)")


def _closing(text: str, opening: int) -> int:
    """Index of the bracket that closes the one at `opening`; the text's end if none does."""
    depth = 0
    for index in range(opening, len(text)):
        if text[index] in "<([{":
            depth += 1
        elif text[index] in ">)]}" and text[index - 1] != "-":
            depth -= 1
            if depth == 0:
                return index
    return len(text)


def split_list(text: str) -> Iterator[str]:
    """The parts between the top-level commas of `text`."""
    depth = start = 0
    for index, letter in enumerate(text):
        if letter in "<([{":
            depth += 1
        elif letter in ">)]}" and text[index - 1] != "-":
            depth -= 1
        elif letter == "," and depth == 0:
            yield text[start:index].strip()
            start = index + 1
    if text[start:].strip():
        yield text[start:].strip()


def type_bytes(name: str) -> int | None:
    """Bytes of a number type as it stands in a name; None for what is no number type."""
    if name in _TYPE_BYTES:
        return _TYPE_BYTES[name]
    opaque = _OPAQUE.search(name)
    if opaque:
        return int(opaque[1])
    return 1 if _FLOAT8.match(name) else None


def number_types(text: str) -> list[int]:
    """Bytes of the number types that occur in `text`, in order."""
    sizes = (type_bytes(match[0]) for match in _TYPE.finditer(text))
    return [size for size in sizes if size is not None]
