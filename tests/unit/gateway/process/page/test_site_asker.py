"""The page's requests of the gateway's own CoAP resources, and what their answers are over HTTP."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Any

import pytest

from coap_engine import codes, option_numbers
from coap_engine.message import CoapResponse
from gateway.process.page import site_asker
from gateway.process.page.api_request import ApiRequest
from gateway.process.page.site_asker import SiteAsker, SiteQuestion, status_of
from gateway.trust.policy.principal import Principal
from gateway.web.api_error import ApiError
from tests.policies import open_access

ASKED = ApiRequest(Principal("console", "anna"), "", {}, {}, {})
STATUS = SiteQuestion("GET", ("status",))


class FixedAnswers:
    """Answers each request with the same: at once, later, or never."""

    def __init__(self, answer: CoapResponse | None, *, is_later: bool = False) -> None:
        self.answer = answer
        self.is_later = is_later
        self.asked_for: list[Any] = []
        self.peers_asked: list[CoapResponse | None] = []
        self.over: list[int] = []

    def asked(
        self, asked: Any, now: float, respond: Callable[..., None], ask: Callable[..., None]
    ) -> tuple[CoapResponse, bool] | None:
        self.asked_for.append(asked)
        ask(asked.peer, asked.request, self.peers_asked.append)
        if self.answer is None or not self.is_later:
            return None if self.answer is None else (self.answer, True)
        respond(asked.exchange, self.answer, True)
        respond(asked.exchange, CoapResponse(codes.NOT_FOUND), True)
        return None

    def refusals(self) -> dict[str, int]:
        return {}

    def ended(self, exchange: int) -> None:
        self.over.append(exchange)


def asker(answers: FixedAnswers) -> SiteAsker:
    return SiteAsker(answers, open_access())


def test_a_question_has_the_options_of_rfc7252_in_their_order() -> None:
    request = SiteQuestion("PUT", ("a", "b c"), ("q=1", "r"), b"x", 60, 50).as_request(lambda: True)
    assert (request.code, request.payload, request.is_fresh) == (codes.PUT, b"x", True)
    assert list(request.options) == [
        (option_numbers.URI_PATH, b"a"),
        (option_numbers.URI_PATH, b"b c"),
        (option_numbers.CONTENT_FORMAT, b"\x32"),
        (option_numbers.URI_QUERY, b"q=1"),
        (option_numbers.URI_QUERY, b"r"),
        (option_numbers.ACCEPT, b"\x3c"),
    ]
    bare = SiteQuestion("GET", ("a",), content_format=0, accept=0).as_request(lambda: True)
    assert list(bare.options)[1:] == [
        (option_numbers.CONTENT_FORMAT, b""),
        (option_numbers.ACCEPT, b""),
    ]


def test_a_question_has_32_parts_of_255_bytes() -> None:
    whole = SiteQuestion("GET", ["x" * 255] * 16, ["ä" * 127 + "x"] * 16)
    assert len(whole.as_request(lambda: True).options) == 32
    for path, query in (
        (["x" * 256], []),
        (["x"], ["ä" * 128]),
        (["x"] * 17, ["x"] * 16),
    ):
        with pytest.raises(ApiError) as raised:
            SiteQuestion("GET", path, query).as_request(lambda: True)
        told = (raised.value.status, raised.value.why)
        assert told == (HTTPStatus.BAD_REQUEST, "a name is too long")


@pytest.mark.parametrize(
    ("code", "status"),
    [
        *[(0x45, 205), (0x41, 201), (0x44, 204), (0x80, 400), (0x81, 403), (0x82, 400)],
        *[(0x83, 403), (0x84, 404), (0x85, 405), (0x88, 400), (0x8C, 412), (0x9D, 429)],
        *[(0xA0, 500), (0xA3, 503), (0xA4, 504), (0xE1, 502), (0x9F, 431), (0x9E, 502)],
    ],
)
def test_rfc8075_7_a_code_of_coap_has_its_status_of_http(code: int, status: int) -> None:
    assert status_of(code) == status


@pytest.mark.parametrize("is_later", [False, True])
async def test_an_answer_is_taken_at_once_or_when_it_comes_and_then_nobody_waits(
    *, is_later: bool
) -> None:
    answers = FixedAnswers(CoapResponse(codes.CONTENT, (), b"{}"), is_later=is_later)
    one = asker(answers)
    for _ in range(2):
        assert await one.good(ASKED, STATUS) == b"{}"
    numbers = [asked.exchange for asked in answers.asked_for]
    assert (len(set(numbers)), answers.over) == (2, numbers if is_later else [])
    assert answers.peers_asked == [None, None]  # a visitor of the page is not asked itself
    peer = answers.asked_for[0].peer
    told = (peer.host, peer.principal, peer.is_address_proven)
    assert told == ("console:anna", "console:anna", True)


@pytest.mark.parametrize(
    ("payload", "why"), [(b"", "Not Found"), (b"no such sensor", "no such sensor")]
)
async def test_an_error_is_told_in_its_own_words(payload: bytes, why: str) -> None:
    answers = FixedAnswers(CoapResponse(codes.NOT_FOUND, (), payload))
    with pytest.raises(ApiError) as raised:
        await asker(answers).document(ASKED, STATUS)
    assert (raised.value.status, raised.value.why) == (HTTPStatus.NOT_FOUND, why)


async def test_who_is_not_answered_in_time_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site_asker, "ANSWER_S", 0.0)
    answers = FixedAnswers(None)
    with pytest.raises(ApiError) as raised:
        await asker(answers).response(ASKED, STATUS)
    told = (raised.value.status, raised.value.why)
    assert told == (HTTPStatus.GATEWAY_TIMEOUT, "no answer in time")
    assert answers.over == [answers.asked_for[0].exchange]
