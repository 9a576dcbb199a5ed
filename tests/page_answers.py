"""An answer of a gateway's page, held against the document that the gateway serves."""

from __future__ import annotations

from typing import Any

from jsonschema import Draft202012Validator

from gateway.process.page.openapi import SCHEMAS
from gateway.process.page.routes import ROUTES


def checked(operation: str, told: Any) -> Any:
    """Return an answer, which is what the document says of the operation."""
    route = next(one for one in ROUTES if one.operation == operation)
    schema = {"$ref": f"#/components/schemas/{route.answer}", "components": {"schemas": SCHEMAS}}
    Draft202012Validator(schema).validate(told)
    return told
