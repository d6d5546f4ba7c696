"""Whether JSON is what the published schemas say."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

_SCHEMAS = Path(__file__).parents[2] / "docs" / "schemas"


def check_conforms(value: Any, name: str) -> None:
    """Raises: ValidationError. Further keys, which readers have to bear, are errors here: the
    schemas are to have all that there are.
    """
    _validator(name).validate(json.loads(json.dumps(value)))


@cache
def _validator(name: str) -> Draft202012Validator:
    schema = json.loads((_SCHEMAS / f"{name}.schema.json").read_text(encoding="utf-8"))
    for record in schema["$defs"].values():
        record["additionalProperties"] = False
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)
