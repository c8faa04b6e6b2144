"""Write the schema of the API: `python -m steadyhelm.server.schema`.

`schema.json` beside this file holds every record as JSON Schema (`$defs`) and every route (`routes`).
The page's types are generated from it.
"""

import sys
from pathlib import Path
from typing import Any, Final

import msgspec

from steadyhelm.server.records.common import Problem, Record
from steadyhelm.server.routes import PREFIX, ROUTES, STREAMED, Route

PATH: Final = Path(__file__).with_name("schema.json")


def _require_every_field(schema: dict[str, Any]) -> None:
    fields = schema.get("properties", {})
    schema["required"] = list(fields)
    schema["additionalProperties"] = False
    for field in fields.values():
        field.pop("default", None)


def build_schema() -> dict[str, Any]:
    """Return the schema. Every field of an answer is required: the server always sends it."""
    answers = {route.answer for route in ROUTES if route.answer is not None} | {Problem, *STREAMED}
    requests = {route.request for route in ROUTES if route.request is not None}
    types = sorted(answers | requests, key=lambda kind: kind.__name__)
    _, components = msgspec.json.schema_components(types, ref_template="#/$defs/{name}")
    records = _collect_names(Record)
    for name in records & components.keys():
        _require_every_field(components[name])
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Steadyhelm API",
        "routes": [_describe(route) for route in ROUTES],
        "streamed": [kind.__name__ for kind in STREAMED],
        "$defs": dict(sorted(components.items())),
    }


def _collect_names(kind: type[Record]) -> set[str]:
    return {kind.__name__}.union(*(_collect_names(child) for child in kind.__subclasses__()))


def _describe(route: Route) -> dict[str, Any]:
    return {
        "name": route.name,
        "method": route.method,
        "path": PREFIX + route.path,
        "scope": route.scope,
        "request": route.request and route.request.__name__,
        "answer": route.answer and route.answer.__name__,
        "query": [parameter._asdict() for parameter in route.query],
    }


def encode_schema() -> bytes:
    """Return the file's content."""
    return msgspec.json.format(msgspec.json.encode(build_schema()), indent=1) + b"\n"


if __name__ == "__main__":
    PATH.write_bytes(encode_schema())
    sys.stderr.write(f"Wrote {PATH.name}.\n")
