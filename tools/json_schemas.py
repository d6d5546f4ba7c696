"""Makes the JSON Schemas of what `--json` prints (docs/json.md), of the types in the code.

python tools/json_schemas.py        # writes docs/schemas
"""

from __future__ import annotations

import ast
import inspect
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from phantora_py.advice import json_types as advice_types
from phantora_py.advice.json_types import Fit, Search
from phantora_py.compare import json_types
from phantora_py.compare.json_types import JudgedComparison, SweepComparison
from phantora_py.report import certainty, iteration_contents, sections, summary
from phantora_py.report.summary import Summary

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "schemas"
_ROOTS: dict[str, type] = {
    "summary": Summary,
    "comparison": JudgedComparison,
    "sweep": SweepComparison,
    "fit": Fit,
    "search": Search,
}
_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def main() -> int:
    """Writes the files."""
    FOLDER.mkdir(exist_ok=True)
    for name, text in schemas().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    return 0


def schemas() -> dict[str, str]:
    """The files by name."""
    texts = _field_texts()
    made = {}
    for name, root in _ROOTS.items():
        schema = {"$schema": _DIALECT, **msgspec.json.schema(root)}
        for title, record in schema["$defs"].items():
            _describe(record, texts[title])
        made[f"{name}.schema.json"] = json.dumps(schema, indent=1) + "\n"
    return made


def _describe(record: dict[str, Any], texts: dict[str, str]) -> None:
    """Keys in the order of the code, each with its text. msgspec has them by name, without.

    Its versions differ in the white space they leave in a docstring, so none is left here.
    """
    if "description" in record:
        record["description"] = " ".join(record["description"].split())
    properties = record["properties"]
    assert texts.keys() == properties.keys(), record["title"]
    for key, text in texts.items():
        if text:
            properties[key]["description"] = " ".join(text.split())
    record["properties"] = {key: properties[key] for key in texts}
    record["required"] = [key for key in texts if key in record.get("required", ())]


def _field_texts() -> dict[str, dict[str, str]]:
    """By class the texts beneath its fields and those of its bases, empty where there is none."""
    found: dict[str, dict[str, str]] = {}
    for module in _modules():
        for node in ast.parse(inspect.getsource(module)).body:
            if isinstance(node, ast.ClassDef):
                bases = [ast.unparse(base).rpartition(".")[2] for base in node.bases]
                inherited = [found[base] for base in bases if base in found]
                found[node.name] = {
                    **{key: text for one in inherited for key, text in one.items()},
                    **dict(_own_texts(node)),
                }
            elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
                found |= _functional(node.value)
    return found


def _modules() -> Iterator[ModuleType]:
    """Those with the types, bases before what is made of them."""
    yield from (certainty, iteration_contents)
    yield from (one for one in vars(sections).values() if inspect.ismodule(one))
    yield from (summary, json_types, advice_types)


def _own_texts(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for field, after in zip(node.body, [*node.body[1:], None], strict=True):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            text = after.value if isinstance(after, ast.Expr) else ast.Constant("")
            yield field.target.id, str(ast.literal_eval(text))


def _functional(call: ast.Call) -> dict[str, dict[str, str]]:
    """TypedDict("Name", {...}), whose keys are no names of Python. They have no texts."""
    if ast.unparse(call.func) != "TypedDict":
        return {}
    name, fields = call.args
    assert isinstance(fields, ast.Dict)
    keys = [ast.literal_eval(key) for key in fields.keys if key is not None]
    return {ast.literal_eval(name): dict.fromkeys(keys, "")}


if __name__ == "__main__":
    sys.exit(main())
