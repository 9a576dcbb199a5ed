"""The Resource Directory at hand: answered in the engine's own turn, and observed by look-up."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Final

from aiocoap.numbers.constants import COAP_PORT, COAPS_PORT

from coap_engine import codes, option_numbers
from coap_engine.message import CoapPeer, CoapRequest, CoapResponse, Option, value_of
from coap_engine.uint import decode_uint, encode_uint
from dtls.datagrams import PeerAddress, join_host_port
from gateway.coap.directory.look_ups_again import AskedLookUp, LookUpsAgain
from gateway.coap.directory.lookup_turns import LookupStep, LookUpTurns
from gateway.coap.directory.waiting_watches import WaitingWatches
from gateway.coap.peers import OscoreAddress, SessionAddress
from gateway.coap.responders import AskForBody, OwnTurn, PendingResponse, RespondTo, WithoutTurn
from resource_directory.exchange import (
    GET,
    LINK_FORMAT,
    POST,
    VALID,
    DirectoryAnswer,
    DirectoryRequest,
    Fetch,
    SlowLookUp,
)
from resource_directory.service import PATHS, DirectoryService

_GET_LINKS: Final = CoapRequest(
    codes.GET,
    (
        (option_numbers.URI_PATH, b".well-known"),
        (option_numbers.URI_PATH, b"core"),
        (option_numbers.ACCEPT, encode_uint(LINK_FORMAT)),
    ),
)
LONG_PAYLOAD_BYTES: Final = 8_192
"""A longer registration takes some milliseconds: it waits for its turn among what takes long."""
_log = logging.getLogger(__name__)
_BUSY: Final = CoapResponse(
    codes.SERVICE_UNAVAILABLE,
    ((option_numbers.MAX_AGE, encode_uint(1)),),
    b"too many long look-ups under way: ask for fewer at a time",
)


class DirectoryAnswers:
    """Answers what is asked of the directory, and tells who observes its look-ups.

    A look-up that goes through very many registrations is answered some turns later. What is
    observed is looked up again in such turns too, once for all who observe the same; what takes
    several waits for its like alone, so that who observes much that takes long delays nobody else.

    Who registers simply (RFC 9176, section 5.1) is asked for its links, from the port and in the
    session that it asked in, before it is answered.

    Args:
        service: the directory's.
        now: its time, seconds.
        turns: where it goes on with what takes long.

    """

    def __init__(
        self, service: DirectoryService, now: Callable[[], float], turns: LookUpTurns
    ) -> None:
        self.segments = frozenset(path[0].encode() for path in PATHS)
        self._service = service
        self._now = now
        self._turns = turns
        self._watched: dict[int, _Watched] = {}
        self._of_exchange: dict[int, int] = {}
        self._slow = LookUpsAgain(service, now, turns, self._tell)
        self._quick = LookUpsAgain(service, now, turns, self._tell, self._are_slow)
        self._waiting = WaitingWatches()

    def answer(
        self, request: CoapRequest, peer: CoapPeer, _now: float
    ) -> CoapResponse | PendingResponse | None:
        """Answer a request to the directory, or begin a slow look-up."""
        asked = _asked(request, peer)
        if asked is None or not self._service.serves(asked.path):
            return None
        if len(asked.payload) > LONG_PAYLOAD_BYTES and asked.method == POST:
            return self._later(asked, peer)
        answer = self._service.answer(asked, self._now())
        if isinstance(answer, Fetch):
            return _SimpleRegistration(answer, self._fetched)
        if isinstance(answer, SlowLookUp):
            if not self._turns.has_room(peer.host, is_stranger=peer.principal is None):
                return _BUSY
            waiting = self._wait_to_watch(request) if request.observe else None
            return _SlowAnswer(self._service, self._turns, peer, answer, waiting)
        if asked.method != GET:
            self.changed()
        return _response(answer)

    def _later(self, asked: DirectoryRequest, peer: CoapPeer) -> CoapResponse | PendingResponse:
        """Register much when it is its peer's turn among all that takes long."""
        is_stranger = peer.principal is None
        if not self._turns.has_room(peer.host, is_stranger=is_stranger):
            return _BUSY

        def register() -> CoapResponse:
            answer = self._service.answer(asked, self._now())
            self.changed()
            assert isinstance(answer, DirectoryAnswer)  # it is no look-up, and has a payload
            return _response(answer)

        def begin(step: LookupStep) -> Callable[[], None]:
            return self._turns.begin(peer.host, step, is_stranger=is_stranger)

        return _LongRegistration(register, begin)

    def observe(self, exchange: int, request: CoapRequest, respond: RespondTo) -> bool:
        """Watch a look-up for an exchange; return whether it can be watched."""
        asked = _asked(request, None)
        waiting = self._waiting.take(request)
        if waiting is not None:
            watch: int | None = waiting.watch
        else:
            watch = None if asked is None else self._service.watch(asked)
        if asked is None or watch is None:
            return False
        watched = self._watched[watch] = _Watched(exchange, asked, respond)
        self._of_exchange[exchange] = watch
        watched.is_slow = waiting is not None
        if waiting is not None and waiting.is_stale:
            self._tell_again([(watch, watched)])
        return True

    def ended(self, exchange: int) -> None:
        """Watch no longer for an exchange."""
        watch = self._of_exchange.pop(exchange, None)
        if watch is not None:
            del self._watched[watch]
            self._service.unwatch(watch)

    def changed(self) -> None:
        """The directory may have changed: tell those whose look-ups have, from the next turn on."""
        changed = self._service.take_changed()
        self._waiting.note(changed)
        self._tell_again(
            [(watch, self._watched[watch]) for watch in changed if watch in self._watched]
        )

    def _tell_again(self, stale: Iterable[tuple[int, _Watched]]) -> None:
        for watch, watched in stale:
            again = self._slow if watched.is_slow else self._quick
            again.add(watched.look_up, watch)

    def _are_slow(self, look_up: AskedLookUp, watches: Iterable[int]) -> None:
        """Make a look-up that takes long again behind others of its kind alone."""
        for watch in watches:
            watched = self._watched.get(watch)
            if watched is not None:
                watched.is_slow = True
                self._slow.add(look_up, watch)

    def _wait_to_watch(self, request: CoapRequest) -> Callable[[], None] | None:
        """Watch a look-up that is answered later; returns what ends that if nobody observes it."""
        asked = _asked(request, None)
        watch = None if asked is None else self._service.watch(asked)
        if watch is None:
            return None
        self._waiting.add(request, watch)

        def end() -> None:
            if self._waiting.take(request) is not None:
                self._service.unwatch(watch)

        return end

    def _fetched(self, fetch: Fetch, response: CoapResponse | None) -> DirectoryAnswer:
        payload, content_format, max_age_s = None, None, None
        if response is not None and response.code == codes.CONTENT:
            payload = response.payload
            content_format = _uint(response.options, option_numbers.CONTENT_FORMAT)
            max_age_s = _uint(response.options, option_numbers.MAX_AGE)
        answer = self._service.fetched(
            fetch.key, payload, self._now(), content_format=content_format, max_age_s=max_age_s
        )
        self.changed()
        return answer

    def _tell(self, watch: int, answer: DirectoryAnswer) -> None:
        watched = self._watched.get(watch)
        if watched is None:
            return
        if not codes.is_success(answer.code):  # that ends an observation (RFC 7641, section 4.2)
            watched.respond(watched.exchange, _response(answer), True)
            return
        if watched.etag == answer.etag:
            return
        watched.etag = answer.etag
        if answer.etag in watched.request.etags:
            answer = DirectoryAnswer(VALID, etag=answer.etag)
        watched.respond(watched.exchange, _response(answer), False)


class _SlowAnswer:
    """An answer of the directory that takes several turns."""

    def __init__(
        self,
        service: DirectoryService,
        turns: LookUpTurns,
        peer: CoapPeer,
        slow: SlowLookUp,
        end_watch: Callable[[], None] | None,
    ) -> None:
        self._service = service
        self._turns = turns
        self._peer = peer
        self._slow = slow
        self._end_watch = end_watch or (lambda: None)

    def begin(self, done: Callable[[CoapResponse], None], ask: AskForBody) -> Callable[[], None]:
        """Look up a part in each turn, until there is an answer."""

        def step() -> bool:
            answer = self._service.go_on(self._slow)
            if answer is not None:
                done(_response(answer))
                self._end_watch()
            return answer is not None

        is_stranger = self._peer.principal is None
        end_turns = self._turns.begin(self._peer.host, step, is_stranger=is_stranger)

        def end() -> None:
            end_turns()
            self._end_watch()

        return end


class _LongRegistration(OwnTurn):
    """Registers many links in one of the turns for what takes long."""

    def __init__(
        self,
        register: Callable[[], CoapResponse],
        begin: Callable[[LookupStep], Callable[[], None]],
    ) -> None:
        super().__init__()
        self._register = register
        self._begin = begin

    def begin(self, done: Callable[[CoapResponse], None], ask: AskForBody) -> Callable[[], None]:
        """Register when it is its turn; what nobody waits for by then is not registered."""

        def step() -> bool:
            self.has_begun = True
            done(self._register())
            return True

        return self._begin(step)


class _SimpleRegistration(WithoutTurn):
    """Answers a simple registration when the registrant has told its links."""

    def __init__(
        self, fetch: Fetch, fetched: Callable[[Fetch, CoapResponse | None], DirectoryAnswer]
    ) -> None:
        self._fetch = fetch
        self._fetched = fetched

    def begin(self, done: Callable[[CoapResponse], None], ask: AskForBody) -> Callable[[], None]:
        """Ask the registrant for its links, then register it."""
        ask(_GET_LINKS, lambda response: done(_response(self._fetched(self._fetch, response))))
        return lambda: None  # what is told all the same is registered


class _Watched:
    """A look-up that is observed, and the tag of what was last said of it."""

    __slots__ = ("etag", "exchange", "is_slow", "look_up", "request", "respond")

    def __init__(self, exchange: int, request: DirectoryRequest, respond: RespondTo) -> None:
        self.exchange = exchange
        self.request = request
        self.respond = respond
        self.look_up: AskedLookUp = (request.path, request.query, request.accept)
        self.is_slow = False
        self.etag: bytes | None = None


def _asked(request: CoapRequest, peer: CoapPeer | None) -> DirectoryRequest | None:
    """Return the request as the directory has it; None if a resource has to say what is wrong with
    it."""
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
        request.code,
        tuple(path),
        tuple(query),
        request.payload,
        content_format,
        accept,
        tuple(etags),
        None if peer is None else peer.principal,
        None if peer is None else _base(peer),
    )


def _uint(options: tuple[Option, ...], number: int) -> int | None:
    value = value_of(options, number)
    return None if value is None else decode_uint(value)


def _base(peer: CoapPeer) -> str | None:
    """Return where it asks from, as a URI."""
    address = peer.address
    if isinstance(address, OscoreAddress):
        address = address.outer
    if isinstance(address, SessionAddress):
        host, port = address.address.sockaddr[:2]
        return f"coaps://{join_host_port(host, port, COAPS_PORT)}"
    if isinstance(address, PeerAddress):
        host, port = address.sockaddr[:2]
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
