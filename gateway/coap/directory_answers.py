"""The Resource Directory at hand: answered in the engine's own turn, and observed by look-up."""

from __future__ import annotations

from collections.abc import Callable

from aiocoap.numbers.constants import COAP_PORT, COAPS_PORT

from coap_engine import option_numbers
from coap_engine.message import CoapPeer, CoapRequest, CoapResponse, Option
from coap_engine.uint import decode_uint, encode_uint
from dtls.datagrams import PeerAddress, join_host_port
from gateway.coap.at_hand import Respond
from gateway.coap.peers import SessionAddress
from resource_directory.exchange import GET, DirectoryAnswer, DirectoryRequest, Fetch
from resource_directory.service import SIMPLE, DirectoryService


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
        if number in (option_numbers.URI_PATH, option_numbers.URI_QUERY):
            try:
                (path if number == option_numbers.URI_PATH else query).append(value.decode())
            except UnicodeDecodeError:
                return None
        elif number == option_numbers.CONTENT_FORMAT:
            content_format = decode_uint(value)
        elif number == option_numbers.ACCEPT:
            accept = decode_uint(value)
        elif number == option_numbers.ETAG:
            etags.append(value)
        elif number & 1:
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
        options.append((option_numbers.ETAG, answer.etag))
    options += [
        (option_numbers.LOCATION_PATH, segment.encode()) for segment in answer.location_path
    ]
    for number, value in (
        (option_numbers.CONTENT_FORMAT, answer.content_format),
        (option_numbers.MAX_AGE, answer.max_age),
    ):
        if value is not None:
            options.append((number, encode_uint(value)))
    return CoapResponse(answer.code, tuple(options), answer.payload)
