"""Requests over topics: from a PUBLISH of a client to the message that answers it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from coap_engine import codes, option_numbers
from coap_engine.message import CoapRequest, CoapResponse
from coap_engine.uint import encode_uint
from gateway.broker.hooks import Client
from gateway.coap.topics.asker import TopicAsker
from gateway.coap.topics.properties import PropertyRefusedError, request_options
from gateway.coap.topics.shares import TopicLimits, TopicShares
from gateway.coap.topics.topics import CoapTopicError, target
from light_dataclasses import dataclass

READS: Final = frozenset((codes.GET, codes.FETCH))
_AGAIN: Final = ((option_numbers.MAX_AGE, encode_uint(1)),)

ResponseCallback = Callable[[CoapResponse], None]


def _nothing() -> None:
    pass


@dataclass(slots=True, eq=False)
class _UnderWay:
    """A request that is not answered."""

    client: Client
    is_read: bool
    size_bytes: int
    end: Callable[[], None] = _nothing


class TopicRequests:
    """Has them answered.

    Args:
        asker: asks for clients.
        limits: how many may be under way.

    """

    def __init__(self, asker: TopicAsker, limits: TopicLimits) -> None:
        self._asker = asker
        self._limits = limits
        self._shares = TopicShares(limits.client_requests, limits.user_requests, limits.user_bytes)
        self._under_way: set[_UnderWay] = set()

    def __len__(self) -> int:
        """Return how many are under way."""
        return len(self._under_way)

    def begin(
        self,
        client: Client,
        topic: str,
        payload: bytes,
        properties: Mapping[int, Any],
        answer: ResponseCallback,
    ) -> None:
        """Have a request answered.

        Args:
            client: who asks.
            topic: what it has published to.
            payload: the body.
            properties: of the PUBLISH.
            answer: takes the response, in a later turn.

        """
        request = self._request(topic, payload, properties)
        if isinstance(request, CoapResponse):
            self._asker.soon(answer, request)
            return
        full = self._shares.take(client, client.owner, len(payload))
        if full:
            why = f"requests {full}".encode()
            self._asker.soon(answer, CoapResponse(codes.SERVICE_UNAVAILABLE, _AGAIN, why))
            return
        one = _UnderWay(client, request.code in READS, len(payload))
        self._under_way.add(one)

        def told(response: CoapResponse, _is_last: bool) -> None:
            self._end(one)
            answer(response)

        one.end = self._asker.ask(request, self._asker.peer(client), told)

    def left(self, client: Client) -> None:
        """A client has gone: nobody reads what it asked for. What it wrote is carried out."""
        for one in [one for one in self._under_way if one.client is client and one.is_read]:
            one.end()
            self._end(one)

    def stop(self) -> None:
        """End all that is under way."""
        for one in list(self._under_way):
            one.end()
            self._end(one)

    def _end(self, one: _UnderWay) -> None:
        if one in self._under_way:
            self._under_way.discard(one)
            one.end = _nothing  # it holds who tells of this one
            self._shares.give_back(one.client, one.client.owner, one.size_bytes)

    def _request(
        self, topic: str, payload: bytes, properties: Mapping[int, Any]
    ) -> CoapRequest | CoapResponse:
        most = self._limits.body_bytes
        if len(payload) > most:
            size = (option_numbers.SIZE1, encode_uint(most))
            why = f"payload over {most} bytes".encode()
            return CoapResponse(codes.REQUEST_ENTITY_TOO_LARGE, (size,), why)
        try:
            return self._asker.request(target(topic), request_options(properties), payload)
        except CoapTopicError as wrong:
            return CoapResponse(codes.BAD_REQUEST, (), str(wrong).encode())
        except PropertyRefusedError as refused:
            return refused.response
