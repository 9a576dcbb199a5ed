"""Fields of a request of the API, and the answers to errors in them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import parse_qsl

import msgspec

from gateway.web.api_error import ApiError
from light_dataclasses import dataclass

TEXT, NUMBER, COUNT, FLAG, TABLE, LIST = "string", "number", "integer", "boolean", "object", "array"
"""Types of JSON (JSON Schema, section 6.1.1)."""
CHARACTERS_MAX: Final = 1_024
"""Of a text, where a field does not say otherwise."""
PARAMETERS_MAX: Final = 16
_KINDS: Final[Mapping[str, tuple[type, ...]]] = {
    TEXT: (str,),
    NUMBER: (int, float),
    COUNT: (int,),
    FLAG: (bool,),
    TABLE: (dict,),
    LIST: (list,),
}


@dataclass(frozen=True, slots=True)
class Field:
    """A parameter of a query, or a field of a body.

    Attributes:
        name: its name.
        kind: `TEXT`, `NUMBER`, `COUNT`, `FLAG`, `TABLE` or `LIST`.
        what: it says, for the document of the API.
        is_needed: it may not be left out.
        least: of a number.
        most: of a number; of a text, its characters.
        is_noted: the audit trail has it.

    """

    name: str
    kind: str
    what: str
    is_needed: bool = False
    least: float | None = None
    most: float | None = None
    is_noted: bool = False


def of_query(query: str, fields: tuple[Field, ...]) -> dict[str, Any]:
    """Return the parameters of a query.

    Args:
        query: as it came.
        fields: that there may be.

    Raises:
        ApiError: one is not known, stands twice, is missing or is none of its kind.

    """
    try:
        pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=PARAMETERS_MAX)
    except ValueError as error:
        raise ApiError(HTTPStatus.BAD_REQUEST, f"query: {error}") from error
    found: dict[str, Any] = {}
    known = {one.name: one for one in fields}
    for name, value in pairs:
        field = known.get(name)
        if field is None or name in found:
            why = "stands twice" if name in found else "is not known"
            raise ApiError(HTTPStatus.BAD_REQUEST, f"{name[:64]}: {why}")
        found[name] = value if field.kind == TEXT else _number(field, value)
    return _checked(found, fields)


def of_body(body: bytes, fields: tuple[Field, ...]) -> dict[str, Any]:
    """Return the fields of a body in JSON.

    Args:
        body: as it came.
        fields: that there may be.

    Raises:
        ApiError: it is no object, or a field is not known, missing or none of its kind.

    """
    if not body and not any(one.is_needed for one in fields):
        return {}
    try:
        found = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise ApiError(HTTPStatus.BAD_REQUEST, "the body is not JSON") from error
    if not isinstance(found, dict):
        raise ApiError(HTTPStatus.BAD_REQUEST, "the body is no object")
    known = {one.name for one in fields}
    for name in found:
        if name not in known:
            raise ApiError(HTTPStatus.BAD_REQUEST, f"{name[:64]}: is not known")
    return _checked(found, fields)


def _number(field: Field, value: str) -> int | float:
    try:
        return int(value) if field.kind == COUNT else float(value)
    except ValueError as error:
        raise ApiError(HTTPStatus.BAD_REQUEST, f"{field.name}: is no {field.kind}") from error


def _checked(found: dict[str, Any], fields: tuple[Field, ...]) -> dict[str, Any]:
    for field in fields:
        if field.name not in found:
            if field.is_needed:
                raise ApiError(HTTPStatus.BAD_REQUEST, f"{field.name}: is missing")
            continue
        why = _why_wrong(field, found[field.name])
        if why:
            raise ApiError(HTTPStatus.BAD_REQUEST, f"{field.name}: {why}")
    return found


def _why_wrong(field: Field, value: Any) -> str:
    if not isinstance(value, _KINDS[field.kind]) or (
        isinstance(value, bool) and field.kind != FLAG
    ):
        return f"is no {field.kind}"
    if isinstance(value, str):
        most = CHARACTERS_MAX if field.most is None else field.most
        return f"{len(value)} characters are more than {most:g}" if len(value) > most else ""
    if isinstance(value, (int, float)) and field.kind in (NUMBER, COUNT):
        low, high = field.least, field.most
        if (low is not None and not value >= low) or (high is not None and not value <= high):
            at_least, at_most = ("any" if one is None else f"{one:g}" for one in (low, high))
            return f"{value!r} is not {at_least} to {at_most}"
    return ""
