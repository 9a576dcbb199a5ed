"""Each bound of what people and scripts tell a page at its exact value."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gateway.process.page import fields
from gateway.process.page.fields import COUNT, FLAG, NUMBER, TEXT, Field
from gateway.web.api_error import ApiError
from gateway.web.chosen_password import why_unfit

FIELDS = (
    Field("text", TEXT, "x"),
    Field("short", TEXT, "x", most=4),
    Field("count", COUNT, "x", least=0, most=10),
    Field("number", NUMBER, "x", least=-1.5, most=1.5),
    Field("flag", FLAG, "x"),
)


@pytest.mark.parametrize(
    ("name", "last", "over"),
    [
        ("text", "ä" * 1_024, "x" * 1_025),
        ("short", "ä" * 4, "xxxxx"),
        ("count", 0, -1),
        ("count", 10, 11),
        ("count", 1, 1.0),
        ("count", 1, True),
        ("number", -1.5, -1.6),
        ("number", 1.5, 1.6),
        ("number", 1, True),
        ("flag", True, 1),
    ],
)
def test_a_field_of_a_body_is_taken_up_to_its_bound(name: str, last: Any, over: Any) -> None:
    assert fields.of_body(msgspec.json.encode({name: last}), FIELDS) == {name: last}
    with pytest.raises(ApiError, match=name):
        fields.of_body(msgspec.json.encode({name: over}), FIELDS)


@pytest.mark.parametrize(
    ("name", "last", "over"),
    [("count", "10", "11"), ("count", "0", "-1"), ("number", "1.5", "nan"), ("number", "1", "inf")],
)
def test_a_parameter_of_a_query_is_taken_up_to_its_bound(name: str, last: str, over: str) -> None:
    assert fields.of_query(f"{name}={last}", FIELDS) == {name: float(last)}
    with pytest.raises(ApiError, match=name):
        fields.of_query(f"{name}={over}", FIELDS)


def test_a_query_has_16_parameters_at_most() -> None:
    many = tuple(Field(f"p{number}", TEXT, "x") for number in range(17))
    query = "&".join(f"p{number}=" for number in range(16))
    assert len(fields.of_query(query, many)) == 16
    with pytest.raises(ApiError, match="query"):
        fields.of_query(f"{query}&p16=", many)


def test_a_chosen_password_has_10_to_256_characters() -> None:
    for length in (10, 256):
        assert why_unfit("ä" * length, "somebody") == ""
    for length in (0, 9, 257):
        assert "10 to 256 characters" in why_unfit("ä" * length, "somebody")
    assert why_unfit("ADMINISTRATOR", "x", "administrator") == "is a name that everybody sees"
