"""Inputs that are wrong: what a flipped bit, an editor, another program or an attacker makes
of a good file. One seed, one input.
"""

from __future__ import annotations

import copy
import json
import random
from typing import Any

_WHOLES = (
    *(0, 1, -1, 2, 7, 255, 256, 65535, 1 << 16, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32),
    *((1 << 53) + 1, (1 << 62), (1 << 63) - 1, 1 << 63, 1 << 64, -(1 << 63), 10**30, 10**4000),
)
_OTHERS: tuple[Any, ...] = (
    *(None, True, False, "", "x", "NaN", "\0", "\ud800", "a" * 5000, "[red]", "\x1b[2J", "../../x"),
    *(0.5, -0.5, 1e308, -1e308, 5e-324, float("nan"), float("inf"), float("-inf")),
    *([], {}, [[]], [0], {"": 0}, [None] * 100),
)
_LINES = ("", "\0", "[", "]", "=", '"', "#", "-1", "1e999", "nan", "9" * 400, "[[x]]", "x = {}")


def wrong_value(rng: random.Random) -> Any:
    """Of whatever type."""
    return copy.deepcopy(rng.choice(_WHOLES) if rng.random() < 0.5 else rng.choice(_OTHERS))


def mutate_json(rng: random.Random, value: Any) -> Any:
    """A value of JSON with some of its parts replaced, removed, doubled or exchanged."""
    root = [copy.deepcopy(value)]
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        parent, key = _place(rng, root)
        act = rng.randrange(6)
        here = parent[key]
        if act == 0 and (isinstance(parent, dict) or parent is not root):
            del parent[key]
        elif act == 1 and isinstance(parent, list) and parent is not root:
            parent.insert(key, copy.deepcopy(rng.choice(parent)))
        elif act == 2 and isinstance(here, int) and not isinstance(here, bool):
            parent[key] = here + rng.choice((1, -1, 1 << 20, -(1 << 40)))
        elif act == 3 and isinstance(parent, dict):
            parent[f"{key}x"] = parent.pop(key)
        else:
            parent[key] = wrong_value(rng)
    return root[0]


def _place(rng: random.Random, root: list[Any]) -> tuple[Any, Any]:
    """A container and a key or index of it, somewhere below."""
    parent: Any = root
    key: Any = 0
    for _ in range(rng.randint(0, 7)):
        inner = parent[key]
        if not isinstance(inner, dict | list) or not inner:
            break
        parent = inner
        key = rng.choice(list(inner)) if isinstance(inner, dict) else rng.randrange(len(inner))
    return parent, key


def json_text(value: Any) -> bytes:
    """As Python writes it: with values that JSON does not know."""
    return json.dumps(value).encode()


def mutate_bytes(rng: random.Random, content: bytes) -> bytes:
    """Bytes changed, removed, added, exchanged or cut off."""
    changed = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 8, 64))):
        if not changed:
            return rng.randbytes(rng.randint(0, 64))
        at = rng.randrange(len(changed))
        act = rng.randrange(7)
        if act <= 1:
            changed[at] ^= 1 << rng.randrange(8)
        elif act == 2:
            changed[at] = rng.choice((0, 0xFF, 0x7F, 0x80, rng.randrange(256)))
        elif act == 3:
            del changed[at : at + rng.choice((1, 4, 8, 64, 4096))]
        elif act == 4:
            changed[at:at] = rng.randbytes(rng.choice((1, 4, 8, 64)))
        elif act == 5:
            other = rng.randrange(len(changed))
            changed[at : at + 16] = changed[other : other + 16]
        else:
            del changed[at:]
    return bytes(changed)


def mutate_text(rng: random.Random, text: str) -> bytes:
    """Lines and words changed, removed, doubled; then, sometimes, bytes."""
    lines = text.split("\n")
    for _ in range(rng.choice((1, 1, 2, 4))):
        if not lines:
            break
        at = rng.randrange(len(lines))
        act = rng.randrange(6)
        if act == 0:
            del lines[at]
        elif act == 1:
            lines.insert(at, rng.choice(lines))
        elif act == 2:
            lines[at] = rng.choice(_LINES)
        else:
            words = lines[at].split(" ")
            words[rng.randrange(len(words))] = _word(rng)
            lines[at] = " ".join(words)
    content = "\n".join(lines).encode(errors="surrogatepass")
    return mutate_bytes(rng, content) if rng.random() < 0.1 else content


def _word(rng: random.Random) -> str:
    value = wrong_value(rng)
    if isinstance(value, str):
        return rng.choice((value, json.dumps(value)))
    try:
        return str(value)
    except ValueError:  # more digits than Python prints
        return "9" * 5000
