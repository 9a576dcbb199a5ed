"""Requests and responses as gateways pass them on, each in both forms, and what can't be."""

from __future__ import annotations

import pytest
from aiocoap.resource import Site

from coap_engine import codes
from coap_engine.message import CoapPeer, CoapRequest, CoapResponse, Option
from coap_engine.option_numbers import HOP_LIMIT, REQUEST_ID
from gateway.coap.remote.execution import LocalExecution
from gateway.coap.remote.forms import (
    NotForOthersError,
    coap_request,
    coap_response,
    no_answer,
    relayed,
    remote_request,
    resource_response,
)
from gateway.coap.remote.named_answers import NamedAnswers
from gateway.coap.responders import AskForBody, RespondTo
from tests.policies import open_access
from tests.remote_fleet import Introducing
from tree_handler.errors import ProtocolError
from tree_handler.remote.resource import ResourceRequest, ResourceResponse

ETAG, URI_PATH, CONTENT_FORMAT, MAX_AGE, URI_QUERY, ACCEPT = 4, 11, 12, 14, 15, 17
ASKER = ("psk:a", ("operator",))


def test_a_request_is_the_same_one_at_the_other_gateway() -> None:
    options = ((ETAG, b"e"), (URI_PATH, b"a"), (CONTENT_FORMAT, b""), (URI_QUERY, b"x=1"))
    request = CoapRequest(codes.FETCH, (*options, (URI_QUERY, b"y"), (ACCEPT, b"\x3c")), b"body")
    remote = remote_request(request, ("a",), ASKER)
    assert remote == ResourceRequest(
        "FETCH", ("a",), ("x=1", "y"), 0, 60, b"body", *ASKER, ((ETAG, b"e"),)
    )
    again = coap_request(remote, observe=True)
    assert again == CoapRequest(codes.FETCH, request.options, b"body", observe=True, is_fresh=True)


@pytest.mark.parametrize(
    ("code", "option", "refused", "why"),
    [
        (0x1F, (), codes.METHOD_NOT_ALLOWED, b"this method is not known"),
        (codes.GET, ((65_005, b""),), codes.BAD_OPTION, b"option 65005"),
        (codes.GET, ((URI_QUERY, b"\xff"),), codes.BAD_OPTION, b"option 15"),
    ],
)
def test_what_can_not_be_passed_on_is_refused_and_named(
    code: int, option: tuple[Option, ...], refused: int, why: bytes
) -> None:
    with pytest.raises(NotForOthersError) as told:
        remote_request(CoapRequest(code, option), ("a",), ASKER)
    assert told.value.response == CoapResponse(refused, (), why)


def test_what_is_elective_and_not_known_is_left_out() -> None:
    request = CoapRequest(codes.GET, ((65_006, b""),))
    assert remote_request(request, ("a",), ASKER).options == ()
    response = CoapResponse(codes.CONTENT, ((MAX_AGE, b"\x05"), (65_006, b"")), b"1")
    assert resource_response(response).options == ((MAX_AGE, b"\x05"),)


def test_a_response_is_the_same_one_at_the_other_gateway() -> None:
    options = ((ETAG, b"e"), (CONTENT_FORMAT, b"\x3c"), (MAX_AGE, b"\x05"))
    response = CoapResponse(codes.CONTENT, options, b"1")
    assert coap_response(resource_response(response)) == response
    with pytest.raises(ProtocolError, match="response option"):
        resource_response(CoapResponse(codes.CONTENT, ((65_005, b""),)))


def test_who_relays_that_hops_are_spent_adds_its_name() -> None:
    spent = ResourceResponse(codes.HOP_LIMIT_REACHED, b"gw-b gw-c")
    assert relayed(spent, "gw-a") == ResourceResponse(codes.HOP_LIMIT_REACHED, b"gw-a gw-b gw-c")
    other = ResourceResponse(codes.CONTENT, b"gw-b")
    assert relayed(other, "gw-a") is other


@pytest.mark.parametrize(
    ("writes", "more"), [(False, b""), (True, b"; it may have been carried out")]
)
def test_of_a_write_without_an_answer_it_is_said_that_it_may_be_done(
    writes: bool, more: bytes
) -> None:
    told = no_answer("gw-b", 2.5, writes=writes)
    assert told.code == codes.GATEWAY_TIMEOUT
    assert told.payload == b"gw-b did not answer within 2.5 s" + more


class AsksBack:
    """Asks who asks, before it answers."""

    segments = frozenset((b"back",))

    def answer(self, _request: CoapRequest, _peer: CoapPeer, _now: float) -> AsksBack:
        return self

    def begin(self, done: object, ask: AskForBody) -> object:
        assert callable(done)

        def heard(response: CoapResponse | None) -> None:
            done(CoapResponse(codes.CONTENT, (), repr(response).encode()))

        ask(CoapRequest(codes.GET), heard)
        return lambda: None

    def observe(self, _exchange: int, _request: CoapRequest, _respond: RespondTo) -> bool:
        return False

    def ended(self, exchange: int) -> None:
        """It tells nothing."""


async def test_who_asks_through_another_gateway_is_not_asked_itself() -> None:
    execution = LocalExecution(Site(), "gw-b", open_access(), [AsksBack()])  # type: ignore[list-item]  # of any answer
    told = await execution(ResourceRequest("GET", ("back",)), "gw-a")
    assert (told.code, told.payload) == (codes.CONTENT, b"None")
    await execution.stop()


async def test_what_came_from_another_gateway_is_not_passed_on() -> None:
    execution = LocalExecution(Site(), "gw-b", open_access())
    told = await execution(ResourceRequest("GET", ("q", "-", "-", "gw-c", "x")), "gw-a")
    assert (told.code, told.payload) == (
        codes.BAD_REQUEST, b"a remote query must not lead to another one",
    )  # fmt: skip
    await execution.stop()


async def test_a_write_with_a_name_has_one_answer_and_is_not_observed() -> None:
    access = Introducing(open_access())
    execution = LocalExecution(Site(), "gw-b", open_access())
    named = NamedAnswers(execution, access)  # type: ignore[arg-type]  # it says who asks
    request = CoapRequest(codes.PUT, ((URI_PATH, b"x"),))
    assert not named.observe(1, request, lambda *_: None)
    await execution.stop()


def test_what_is_of_the_way_alone_does_not_come_to_a_resource() -> None:
    way = ((HOP_LIMIT, b"\x05"), (REQUEST_ID, b"\x00name"))
    remote = ResourceRequest("PUT", ("a",), options=((ETAG, b"e"), *way))
    assert coap_request(remote).options == ((ETAG, b"e"), (URI_PATH, b"a"))
