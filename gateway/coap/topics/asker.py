"""Requests over topics, to CoAP: those of MQTT clients as those of vouched peers."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import Final

from coap_engine import codes, option_numbers
from coap_engine.message import CoapPeer, CoapRequest, CoapResponse, Option, RequestReceived
from gateway.broker.hooks import Client
from gateway.coap.access import CoapAccess, Introduction
from gateway.coap.answers import RequestAnswers, RouteRequest
from gateway.coap.peers import VouchedAddress
from gateway.coap.topics.topics import CoapTarget
from light_dataclasses import dataclass
from tree_handler.members.hierarchy import Membership

OnTopicResponse = Callable[[CoapResponse, bool], None]
"""Takes a response, and whether it is the last one."""

_OVER_MQTT: Final = "mqtt"


@dataclass(frozen=True, slots=True)
class CoapFace:
    """The parts of a gateway's CoAP that are asked over topics.

    Attributes:
        answers: answer requests, and decide before on each.
        access: the same that ``answers`` ask.
        router: says what a request is here that names another gateway.
        members: who there is.

    """

    answers: RequestAnswers
    access: CoapAccess
    router: RouteRequest
    members: Membership


class TopicAsker:
    """Asks for MQTT clients.

    Args:
        face: is asked.
        proof: what a client has proved; see `gateway.broker.access.guard.Guard.proof`.

    """

    def __init__(
        self, face: CoapFace, proof: Callable[[Client], tuple[str, str, frozenset[str]]]
    ) -> None:
        self._face = face
        self._proof = proof
        self._numbers = itertools.count(1)
        self._loop = asyncio.get_running_loop()

    def peer(self, client: Client) -> CoapPeer:
        """Return who a client is over CoAP, by the policy that holds now."""
        introduction = self._face.access.proven(*self._proof(client))
        return peer_of(introduction, client.address)

    def request(
        self, target: CoapTarget, options: list[Option], payload: bytes, *, observe: bool = False
    ) -> CoapRequest | CoapResponse:
        """Return the request that a target stands for, or why there is none.

        Args:
            target: of a topic.
            options: further ones.
            payload: the body.
            observe: changes are to be told, too.

        """
        route: tuple[Option, ...] = ()
        if target.gateway:
            if self._face.members.get(target.gateway) is None:
                return CoapResponse(codes.NOT_FOUND, (), f"no gateway {target.gateway}".encode())
            route = ((option_numbers.URI_HOST, target.gateway.encode()),)
        said = tuple(sorted((*target.options, *options), key=lambda option: option[0]))
        # A PUBLISH of a client whom the broker knows is as fresh as a record of DTLS.
        request = CoapRequest(target.code, said, payload, observe, is_fresh=True, route=route)
        return self._face.router(request) if route else request

    def soon(self, told: Callable[[CoapResponse], None], response: CoapResponse) -> None:
        """Tell of a response in a later turn: what it answers is acknowledged first."""
        self._loop.call_soon(told, response)

    def refusal(self, request: CoapRequest, peer: CoapPeer) -> CoapResponse | None:
        """Return what a peer is told that may not make a request; None if it may."""
        return self._face.access.refusal(request, peer)

    def ask(
        self, request: CoapRequest, peer: CoapPeer, told: OnTopicResponse
    ) -> Callable[[], None]:
        """Have a request answered.

        Args:
            request: of `request`.
            peer: who asks.
            told: takes what comes of it, in later turns.

        Returns:
            What ends it: nothing is told after that.

        """
        number = next(self._numbers)
        asking = _TopicExchange(number, told, self._face.answers, self._loop)
        asked = RequestReceived(number, peer, request)
        answer = self._face.answers.asked(asked, self._loop.time(), asking.respond, _ask_nobody)
        if answer is not None:
            asking.respond(number, *answer)
        return asking.end


class _TopicExchange:
    """A request that is being answered: nothing is told of it once it has ended."""

    __slots__ = ("_answers", "_is_over", "_loop", "_number", "_told")

    def __init__(
        self,
        number: int,
        told: OnTopicResponse,
        answers: RequestAnswers,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._number = number
        self._told = told
        self._answers = answers
        self._loop = loop
        self._is_over = False

    def respond(self, _exchange: int, response: CoapResponse, is_last: bool) -> None:
        """Tell of a response in a later turn."""
        self._loop.call_soon(self._tell, response, is_last)

    def _tell(self, response: CoapResponse, is_last: bool) -> None:
        if not self._is_over:
            self._told(response, is_last)

    def end(self) -> None:
        """Nobody waits for it any more."""
        self._is_over = True
        self._answers.ended(self._number)


def peer_of(introduction: Introduction, address: str) -> CoapPeer:
    """Return a peer that this gateway vouches for itself; strangers have the share of their
    address."""
    text, roles = introduction
    host = text or f"{_OVER_MQTT} {address}"
    return CoapPeer(VouchedAddress("", text, roles), host, text, is_address_proven=True)


def _ask_nobody(
    _peer: CoapPeer, _request: CoapRequest, done: Callable[[CoapResponse | None], None]
) -> None:
    """A client of MQTT is not asked itself."""
    done(None)
