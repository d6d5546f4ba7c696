"""docs/schemas is what its tool makes today."""

from __future__ import annotations

import json

import json_schemas


def test_the_schemas_are_up_to_date() -> None:
    """To make them anew: python tools/json_schemas.py"""
    there = {path.name: path.read_text(encoding="utf-8") for path in json_schemas.FOLDER.iterdir()}
    assert there == json_schemas.schemas()


def test_keys_have_the_texts_of_the_code() -> None:
    """Also those that a type has from another."""
    schema = json.loads(json_schemas.schemas()["summary.schema.json"])
    keys = schema["$defs"]["Summary"]["properties"]
    assert "Phantora was killed" in keys["broke_off"]["description"]
    assert next(iter(keys)) == "ranks"
