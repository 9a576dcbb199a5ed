"""The document of the REST API tells of each route what a request of it may be."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.process.page import fields
from gateway.process.page.fields import COUNT, NUMBER, TEXT, Field
from gateway.process.page.openapi import SCHEMAS, document
from gateway.process.page.routes import ROUTES
from gateway.web.api_error import ApiError

REFUSED = {
    "description": "The request was refused; `error` says why.",
    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
}


def told_of(method: str, path: str) -> dict[str, Any]:
    found: dict[str, Any] = document()["paths"][path][method]
    return found


def answered(media: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {
        "200": {"description": "Done.", "content": {media: {"schema": schema}}},
        "default": REFUSED,
    }


def test_a_route_with_a_body_tells_its_fields_and_which_are_needed() -> None:
    assert told_of("post", "/messages") == {
        "operationId": "publish",
        "summary": "Publish a message with QoS 1. It is on its way into the log when the answer "
        "comes.",
        "parameters": [],
        "responses": answered("application/json", {"$ref": "#/components/schemas/Done"}),
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {
                    "schema": {
                        "type": "object",
                        "properties": {
                            "topic": {"type": "string", "description": "The topic of the message."},
                            "payload": {
                                "type": "string",
                                "description": "The payload of the message, in UTF-8.",
                                "maxLength": 32_768,
                            },
                            "retain": {
                                "type": "boolean",
                                "description": "Let the broker retain the message.",
                            },
                        },
                        "required": ["topic", "payload"],
                        "additionalProperties": False,
                    }
                }
            },
        },
    }


def test_a_body_of_which_nothing_is_needed_may_be_left_out() -> None:
    told = told_of("post", "/clients/{id}/disconnect")
    assert told["requestBody"]["required"] is False
    assert told["parameters"] == [
        {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}
    ]


def test_a_route_with_parameters_tells_their_bounds_and_has_no_body() -> None:
    wait = "The time to wait for something new, in seconds."
    after = "The number with which the answer before ended."
    assert told_of("get", "/messages") == {
        "operationId": "messages",
        "summary": "Get messages on topics that a filter matches, as they come.",
        "parameters": [
            {
                "name": "filter",
                "in": "query",
                "required": True,
                "schema": {"type": "string", "description": "A topic filter."},
            },
            {
                "name": "after",
                "in": "query",
                "required": False,
                "schema": {
                    "type": "integer",
                    "description": after,
                    "maximum": 2**53,
                    "minimum": 0,
                },
            },
            {
                "name": "wait_s",
                "in": "query",
                "required": False,
                "schema": {"type": "number", "description": wait, "maximum": 25.0, "minimum": 0},
            },
        ],
        "responses": answered("application/json", {"$ref": "#/components/schemas/Messages"}),
    }


def test_an_answer_that_is_no_json_has_a_media_type_and_no_schema() -> None:
    assert told_of("get", "/support")["responses"] == answered("application/gzip", {})
    assert told_of("get", "/keys/request")["responses"] == answered("application/pkcs10", {})


def test_an_open_route_asks_for_neither_token_nor_session_and_all_others_for_one() -> None:
    assert document()["security"] == [{"token": []}, {"session": []}]
    kept = {
        one["operationId"]: one.get("security")
        for methods in document()["paths"].values()
        for one in methods.values()
    }
    is_open = {"document", "me", "log_in", "make_token"}
    assert kept == {one.operation: [] if one.operation in is_open else None for one in ROUTES}


BOUNDED = {
    (route.operation, field.name): field
    for route in ROUTES
    for field in route.query + route.body
    if field.least is not None or field.most is not None
}


@pytest.mark.parametrize(("operation", "name"), BOUNDED)
def test_a_bound_that_the_document_tells_is_the_last_value_that_is_taken(
    operation: str, name: str
) -> None:
    field = BOUNDED[operation, name]
    alone = (Field(name, field.kind, "", least=field.least, most=field.most),)
    (told,) = (
        schema
        for methods in document()["paths"].values()
        for one in methods.values()
        if one["operationId"] == operation
        for schema in _schemas(one, name)
    )
    taken, refused = list[Any](), list[Any]()
    if field.kind == TEXT:
        taken, refused = ["x" * told["maxLength"]], ["x" * (told["maxLength"] + 1)]
        assert not {"minimum", "maximum"} & told.keys()
    else:
        assert field.kind in (NUMBER, COUNT)
        assert "maxLength" not in told
        taken = [told["minimum"], told["maximum"]]
        refused = [told["minimum"] - 1, int(told["maximum"]) + 1]
    for value in taken:
        assert fields.of_body(json.dumps({name: value}).encode(), alone) == {name: value}
    for value in refused:
        with pytest.raises(ApiError, match=f"^{name}: "):
            fields.of_body(json.dumps({name: value}).encode(), alone)


def _schemas(told: dict[str, Any], name: str) -> list[dict[str, Any]]:
    query = [one for one in told["parameters"] if one["in"] == "query"]
    found = [one["schema"] for one in query if one["name"] == name]
    if "requestBody" in told:
        body = told["requestBody"]["content"]["application/json"]["schema"]["properties"]
        found += [body[name]] if name in body else []
    return found


def test_a_schema_names_what_an_answer_always_has_and_one_without_such_names_none() -> None:
    assert SCHEMAS["Error"]["required"] == ["error"]
    assert all(
        set(one.get("required", ())) <= set(one["properties"])
        for one in SCHEMAS.values()
        if "properties" in one
    )
    assert all(one.get("required") != [] for one in SCHEMAS.values())
