"""Asks the gateway's CoAP resources for visitors of the page: whose rights they are decides there.

What operators ask over CoAP (`gateway.coap.operations`) is so the page's too: the same policy, the
same resources, the same answers. RFC 8075 says how HTTP and CoAP go together.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Final

import msgspec

from coap_engine import codes, option_numbers
from coap_engine.message import CoapPeer, CoapRequest, CoapResponse, Option, RequestReceived
from coap_engine.uint import encode_uint
from gateway.coap.access import METHOD_NAMES, CoapAccess, CoapRights
from gateway.coap.answers import RequestAnswers
from gateway.coap.peers import VouchedAddress
from gateway.process.page.api_request import ApiRequest
from gateway.trust.policy.principal import Principal
from gateway.web.api_error import ApiError
from light_dataclasses import dataclass

ANSWER_S: Final = 20.0
JSON: Final = 50
TEXT: Final = 0
"""Content formats (RFC 7252, section 12.3)."""
OPTION_BYTES_MAX: Final = 255
SEGMENTS_MAX: Final = 32
_CODES: Final = {name: code for code, name in METHOD_NAMES.items()}
_CLASS_BITS: Final = 5
_STATUSES: Final = {
    codes.CREATED: HTTPStatus.CREATED,
    codes.UNAUTHORIZED: HTTPStatus.FORBIDDEN,  # who asks is known: a proof is not what is missing
    codes.BAD_OPTION: HTTPStatus.BAD_REQUEST,
    codes.TOO_MANY_REQUESTS: HTTPStatus.TOO_MANY_REQUESTS,
    codes.REQUEST_ENTITY_INCOMPLETE: HTTPStatus.BAD_REQUEST,
}
"""The statuses that are not the code's class and detail (RFC 8075, section 7)."""


@dataclass(frozen=True, slots=True)
class SiteQuestion:
    """A request that the page makes of the gateway's CoAP resources.

    Attributes:
        method: its name, as ``GET``.
        path: its segments.
        query: its parts.
        payload: the body.
        accept: the content format that is wanted; None for any.
        content_format: the body's; None without one.

    """

    method: str
    path: Sequence[str]
    query: Sequence[str] = ()
    payload: bytes = b""
    accept: int | None = None
    content_format: int | None = None

    def as_request(self, is_still_in: Callable[[], bool]) -> CoapRequest:
        """Return the request.

        Args:
            is_still_in: see `CoapRequest`.

        Raises:
            ApiError: a part is longer than an option of CoAP, or there are too many.

        """
        options: list[Option] = [(option_numbers.URI_PATH, one.encode()) for one in self.path]
        if self.content_format is not None:
            options.append((option_numbers.CONTENT_FORMAT, encode_uint(self.content_format)))
        options += [(option_numbers.URI_QUERY, one.encode()) for one in self.query]
        if self.accept is not None:
            options.append((option_numbers.ACCEPT, encode_uint(self.accept)))
        if len(options) > SEGMENTS_MAX or any(
            len(value) > OPTION_BYTES_MAX for _, value in options
        ):
            raise ApiError(HTTPStatus.BAD_REQUEST, "a name is too long")
        return CoapRequest(
            _CODES[self.method],
            tuple(options),
            self.payload,
            is_fresh=True,
            is_still_in=is_still_in,
        )


class SiteAsker:
    """Asks.

    Args:
        answers: answer requests, and decide before on each.
        access: the same that ``answers`` ask.

    """

    def __init__(self, answers: RequestAnswers, access: CoapAccess) -> None:
        self._answers = answers
        self._access = access
        self._numbers = itertools.count(1)

    def may(self, visitor: Principal, method: str, *path: str) -> bool:
        """Return whether a visitor may make such a request."""
        return self._access.may(visitor, method, path).is_allowed

    def rights(self, visitor: Principal) -> CoapRights:
        """Return what decides for a visitor: for who asks of hundreds of paths."""
        return self._access.rights(visitor)

    async def response(self, asked: ApiRequest, question: SiteQuestion) -> CoapResponse:
        """Return what is answered to a visitor.

        A write that waits for its turn is refused if its visitor is logged out by then, has other
        roles, or may not any more.

        Args:
            asked: of the page, in whose visitor's name this is asked.
            question: of the resources.

        Raises:
            ApiError: nothing is, in time.

        """
        request = question.as_request(asked.is_still_in)
        text, roles = self._access.introduced(asked.visitor)
        peer = CoapPeer(
            VouchedAddress("", text, roles), text or "page", text, is_address_proven=True
        )
        exchange = next(self._numbers)
        loop = asyncio.get_running_loop()
        told: asyncio.Future[CoapResponse] = loop.create_future()

        def respond(_exchange: int, response: CoapResponse, _is_last: bool) -> None:
            if not told.done():
                told.set_result(response)

        answer = self._answers.asked(
            RequestReceived(exchange, peer, request), loop.time(), respond, _ask_nobody
        )
        if answer is not None:
            return answer[0]
        try:
            async with asyncio.timeout(ANSWER_S):
                return await told
        except TimeoutError as error:
            raise ApiError(HTTPStatus.GATEWAY_TIMEOUT, "no answer in time") from error
        finally:
            self._answers.ended(exchange)

    async def good(self, asked: ApiRequest, question: SiteQuestion) -> bytes:
        """Return the payload of an answer that is no error.

        Raises:
            ApiError: it is one.

        """
        response = await self.response(asked, question)
        if codes.is_success(response.code):
            return response.payload
        why = response.payload.decode(errors="replace")
        status = status_of(response.code)
        raise ApiError(status, why or status.phrase)

    async def document(self, asked: ApiRequest, question: SiteQuestion) -> msgspec.Raw:
        """Return the JSON of an answer, as it is.

        Raises:
            ApiError: it is an error.

        """
        return msgspec.Raw(await self.good(asked, question))


def status_of(code: int) -> HTTPStatus:
    """Return the status of HTTP that stands for a code of CoAP."""
    found = _STATUSES.get(code)
    if found is not None:
        return found
    number = (code >> _CLASS_BITS) * 100 + (code & (1 << _CLASS_BITS) - 1)
    try:
        return HTTPStatus(number)
    except ValueError:
        return HTTPStatus.BAD_GATEWAY


def _ask_nobody(
    _peer: CoapPeer, _request: CoapRequest, done: Callable[[CoapResponse | None], None]
) -> None:
    """A visitor of the page is not asked itself."""
    done(None)
