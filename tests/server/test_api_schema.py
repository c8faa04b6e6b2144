"""The schema of the API, from which the page's types are made."""

from typing import Any

import msgspec

from steadyhelm.server.routes import ROUTES
from steadyhelm.server.schema import PATH, build_schema, encode_schema


def test_the_stored_schema_is_current() -> None:
    """`schema.json` is what the records say; after a change run `python -m steadyhelm.server.schema`."""
    assert PATH.read_bytes() == encode_schema()


def test_every_reference_leads_somewhere() -> None:
    """No record is named that the schema does not hold."""
    schema = build_schema()
    assert {ref.removeprefix("#/$defs/") for ref in _find_references(schema)} <= set(schema["$defs"])


def test_an_answer_has_all_its_fields() -> None:
    """Every field of an answer is required, so that the page need not ask whether it is there."""
    schema = build_schema()
    for route in schema["routes"]:
        if route["answer"]:
            answer = schema["$defs"][route["answer"]]
            assert answer["required"] == list(answer["properties"])


def test_reading_needs_no_more_than_the_scope_to_read() -> None:
    """A GET never changes anything; only keys are hidden from who may read."""
    beyond = {route.path for route in ROUTES if route.method == "GET" and route.scope != "read"}
    assert beyond == {"/keys"}


def test_only_signing_in_is_open() -> None:
    """Of the API, signing in alone answers without being signed in."""
    assert [(route.method, route.path) for route in ROUTES if route.scope is None] == [("POST", "/session")]


def test_the_schema_is_plain_json() -> None:
    """Any program can read the file."""
    assert msgspec.json.decode(PATH.read_bytes())["title"] == "Steadyhelm API"


def _find_references(value: Any) -> set[str]:
    if isinstance(value, dict):
        own = {value["$ref"]} if isinstance(value.get("$ref"), str) else set()
        return own.union(*(_find_references(item) for item in value.values()))
    if isinstance(value, list):
        return set().union(*(_find_references(item) for item in value))
    return set()
