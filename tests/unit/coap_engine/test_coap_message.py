"""Requests and responses are told apart by all that they say, and logged without their payload."""

from __future__ import annotations

import pytest

from coap_engine import codes
from coap_engine.message import CoapRequest, CoapResponse, RequestReceived
from coap_engine.request_bodies import WholeBody
from tests.unit.coap_engine.coap_world import PUMP, TEMPERATURE

ROUTE = ((3, b"host"),)


def one_request(**other: object) -> CoapRequest:
    said: dict[str, object] = {
        "code": codes.PUT,
        "options": TEMPERATURE,
        "payload": b"secret",
        "observe": False,
        "is_fresh": False,
        "route": (),
    }
    return CoapRequest(**(said | other))  # type: ignore[arg-type]  # of any type


def test_requests_are_the_same_that_say_the_same() -> None:
    others = [
        one_request(code=codes.POST),
        one_request(options=()),
        one_request(payload=b"secre"),
        one_request(observe=True),
        one_request(is_fresh=True),
        one_request(route=ROUTE),
    ]
    assert one_request() == one_request(is_still_in=lambda: True)
    assert one_request() not in others
    assert len({one_request(), one_request(is_still_in=lambda: True), *others}) == 7


def test_responses_and_whole_bodies_are_the_same_that_say_the_same() -> None:
    responses = [
        CoapResponse(codes.CONTENT, TEMPERATURE, b"a"),
        CoapResponse(codes.CHANGED, TEMPERATURE, b"a"),
        CoapResponse(codes.CONTENT, (), b"a"),
        CoapResponse(codes.CONTENT, TEMPERATURE, b"b"),
    ]
    bodies = [WholeBody(b"a", None), WholeBody(b"b", None), WholeBody(b"a", b"\x10")]
    assert len({*responses, CoapResponse(codes.CONTENT, TEMPERATURE, b"a")}) == 4
    assert len({*bodies, WholeBody(b"a", None)}) == 3
    assert responses[0] != bodies[0]


@pytest.mark.parametrize(
    ("said", "text"),
    [
        (CoapRequest(codes.GET), "CoapRequest(0.01, 0 bytes)"),
        (one_request(), "CoapRequest(0.03, 6 bytes)"),
        (CoapResponse(codes.GATEWAY_TIMEOUT, (), b"secret"), "CoapResponse(5.04, 6 bytes)"),
        (CoapResponse(codes.REQUEST_ENTITY_TOO_LARGE), "CoapResponse(4.13, 0 bytes)"),
    ],
)
def test_a_line_of_a_log_names_the_code_as_rfc_7252_writes_it_and_no_payload(
    said: object, text: str
) -> None:
    assert repr(said) == text


def test_what_was_asked_is_logged_with_who_asked_and_no_payload() -> None:
    text = repr(RequestReceived(5, PUMP, one_request()))
    assert text == f"RequestReceived(5, {PUMP}, CoapRequest(0.03, 6 bytes))"
