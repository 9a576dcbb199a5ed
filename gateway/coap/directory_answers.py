"""The Resource Directory at hand: answered in the engine's own turn, and observed by look-up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from aiocoap.numbers.constants import COAP_PORT, COAPS_PORT
from aiocoap.numbers.optionnumbers import OptionNumber

from coap_engine.message import CoapPeer, CoapRequest, CoapResponse, Option
from dtls.datagrams import PeerAddress, join_host_port
from gateway.coap.at_hand import Respond
from gateway.coap.peers import SessionAddress
from resource_directory.exchange import GET, DirectoryAnswer, DirectoryRequest, Fetch
from resource_directory.service import SIMPLE, DirectoryService

_URI_PATH: Final = int(OptionNumber.URI_PATH)
_URI_QUERY: Final = int(OptionNumber.URI_QUERY)
_CONTENT_FORMAT: Final = int(OptionNumber.CONTENT_FORMAT)
_ACCEPT: Final = int(OptionNumber.ACCEPT)
_ETAG: Final = int(OptionNumber.ETAG)
_MAX_AGE: Final = int(OptionNumber.MAX_AGE)
_LOCATION_PATH: Final = int(OptionNumber.LOCATION_PATH)
_UNDERSTOOD: Final = frozenset((_URI_PATH, _URI_QUERY, _ACCEPT))


class DirectoryAnswers:
    """Answers what is asked of the directory, and tells who observes its look-ups.

    Simple registration is left to the site, which has it not: it takes a request to the registrant.

    Args:
        service: the directory's.
        now: its time, seconds.

    """

    def __init__(self, service: DirectoryService, now: Callable[[], float]) -> None:
        self._service = service
        self._now = now
        self._watched: dict[int, _Watched] = {}
        self._of_exchange: dict[int, int] = {}

    def answer(self, request: CoapRequest, peer: CoapPeer, _now: float) -> CoapResponse | None:
        """See `gateway.coap.at_hand.AtHand`."""
        asked = _asked(request, peer)
        if asked is None or asked.path == SIMPLE or not self._service.serves(asked.path):
            return None
        answer = self._service.answer(asked, self._now())
        if isinstance(answer, Fetch):
            return None
        if asked.method != GET:
            self.changed()
        return _response(answer)

    def observe(self, exchange: int, request: CoapRequest, respond: Respond) -> bool:
        """See `gateway.coap.at_hand.AtHand`."""
        asked = _asked(request, None)
        watch = None if asked is None else self._service.watch(asked)
        if asked is None or watch is None:
            return False
        self._watched[watch] = _Watched(exchange, asked, respond)
        self._of_exchange[exchange] = watch
        return True

    def ended(self, exchange: int) -> None:
        """See `gateway.coap.at_hand.AtHand`."""
        watch = self._of_exchange.pop(exchange, None)
        if watch is not None:
            del self._watched[watch]
            self._service.unwatch(watch)

    def changed(self) -> None:
        """The directory may have changed: tell those whose look-ups have."""
        for watch in self._service.take_changed():
            watched = self._watched.get(watch)
            if watched is None:
                continue
            answer = self._service.answer(watched.request, self._now())
            if not isinstance(answer, Fetch) and answer.etag != watched.etag:
                watched.etag = answer.etag
                watched.respond(watched.exchange, _response(answer), False)


class _Watched:
    """A look-up that is observed, and the tag of what was last said of it."""

    __slots__ = ("etag", "exchange", "request", "respond")

    def __init__(self, exchange: int, request: DirectoryRequest, respond: Respond) -> None:
        self.exchange = exchange
        self.request = request
        self.respond = respond
        self.etag: bytes | None = None


def _asked(request: CoapRequest, peer: CoapPeer | None) -> DirectoryRequest | None:
    """The request as the directory has it; None if a resource has to say what is wrong with it."""
    path: list[str] = []
    query: list[str] = []
    content_format: int | None = None
    accept: int | None = None
    etags: list[bytes] = []
    for number, value in request.options:
        if number in (_URI_PATH, _URI_QUERY):
            try:
                (path if number == _URI_PATH else query).append(value.decode())
            except UnicodeDecodeError:
                return None
        elif number == _CONTENT_FORMAT:
            content_format = int.from_bytes(value, "big")
        elif number == _ACCEPT:
            accept = int.from_bytes(value, "big")
        elif number == _ETAG:
            etags.append(value)
        elif number & 1 and number not in _UNDERSTOOD:
            return None
    return DirectoryRequest(
        *(request.code, tuple(path), tuple(query), request.payload),
        *(content_format, accept, tuple(etags)),
        None if peer is None else peer.principal,
        None if peer is None else _base(peer),
    )


def _base(peer: CoapPeer) -> str | None:
    """Where it asks from, as a URI."""
    if isinstance(peer.address, SessionAddress):
        host, port = peer.address.address.sockaddr[:2]
        return f"coaps://{join_host_port(host, port, COAPS_PORT)}"
    if isinstance(peer.address, PeerAddress):
        host, port = peer.address.sockaddr[:2]
        return f"coap://{join_host_port(host, port, COAP_PORT)}"
    return None


def _response(answer: DirectoryAnswer) -> CoapResponse:
    options: list[Option] = []
    if answer.etag is not None:
        options.append((_ETAG, answer.etag))
    options += [(_LOCATION_PATH, segment.encode()) for segment in answer.location_path]
    for number, value in (
        (_CONTENT_FORMAT, answer.content_format),
        (_MAX_AGE, answer.max_age),
    ):
        if value is not None:
            options.append((number, value.to_bytes((value.bit_length() + 7) // 8, "big")))
    return CoapResponse(answer.code, tuple(options), answer.payload)
