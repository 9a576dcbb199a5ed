"""Look-ups in the directories of a group, a domain or the whole fleet, asked at any gateway.

The shell around `gateway.coap.fleet_directory`.

``/rd-lookup/ep`` and ``/rd-lookup/res`` with ``scope=`` group, domain or all, or with ``gw=``: the
directories of other gateways are asked for it, in the name of who asks, so the policy of each
decides what is told. Those whose digests say that they have nothing of it are not asked
(`resource_directory.digest`, which is in each gateway's record). See decision 31.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, Protocol

from coap_engine import codes, option_numbers
from coap_engine.message import CoapPeer, CoapRequest, CoapResponse, Option
from coap_engine.uint import decode_uint, encode_uint
from gateway.base.due_timer import DueTimer
from gateway.base.event_log.counted_lines import CountedLines
from gateway.base.event_log.failures import Failures
from gateway.coap.access import CoapAccess
from gateway.coap.directory.fleet_observing import FleetObservations
from gateway.coap.fleet_directory.search import DirectoryQuestion, DirectorySearch
from gateway.coap.fleet_directory.searches import DirectorySearches
from gateway.coap.fleet_directory.targets import LookedUp, is_too_long, links_of, targets
from gateway.coap.forwarded_requests import QUERY_SEGMENT
from gateway.coap.peers import shown_by
from gateway.coap.remote.reply import OnReply
from gateway.coap.responders import AskForBody, ImmediateResponder, PendingResponse, RespondTo
from gateway.trust.policy.principal import Principal
from resource_directory.errors import DirectoryError
from resource_directory.exchange import LINK_FORMAT
from resource_directory.link_format import WebLink
from resource_directory.representation import Representation
from resource_directory.scoped import LookUpScope, ScopedQuery, without_scope
from resource_directory.service import ENDPOINTS, RESOURCES
from tree_handler.errors import ProtocolError
from tree_handler.members.hierarchy import Membership
from tree_handler.members.member import MemberRecord
from tree_handler.remote.query import TooManyError
from tree_handler.remote.resource import ResourceRequest, ResourceResponse


class ResourceFollower(Protocol):
    """Follows resources of gateways."""

    def subscribe(
        self, record: MemberRecord, request: ResourceRequest, told: OnReply
    ) -> Callable[[], None]:
        """Have a gateway, this one included, tell of changes.

        See `fleet_observing.SubscribeToLookups`.
        """

    def in_reach(self, gateway_id: str) -> bool:
        """Return whether a gateway is in reach."""


SCOPES: Final = " ".join(scope.value for scope in LookUpScope)
DEADLINE_S: Final = 5.0
MAX_AGE_S: Final = 5

AskGateway = Callable[[MemberRecord, ResourceRequest], Awaitable[ResourceResponse]]
"""Has a request executed by a gateway, this one included.

Raises `TimeoutError`, or `TooManyError` if too many wait already.
"""
_log = logging.getLogger(__name__)
_NOT_TOLD: Final = b"the fleet's directories are told to those to whom the policy gives them"
_BUSY: Final = CoapResponse(
    codes.SERVICE_UNAVAILABLE,
    ((option_numbers.MAX_AGE, encode_uint(1)),),
    b"too many look-ups in other gateways' directories under way",
)


class FleetLookUps:
    """Look-ups with a scope; all else is left to the own directory.

    Args:
        gateway_id: this gateway.
        members: who there is, and what their directories have.
        access: decides who is told of the fleet.
        ask: asks a gateway.
        own: answers look-ups in the own directory.
        follows: follows look-ups at gateways; None where they can't be observed.

    """

    def __init__(
        self,
        gateway_id: str,
        members: Membership,
        access: CoapAccess,
        ask: AskGateway,
        own: ImmediateResponder,
        follows: ResourceFollower | None = None,
    ) -> None:
        self.segments = frozenset(path[0] for path in _PATHS)
        self._gateway_id = gateway_id
        self._members = members
        self._access = access
        self._ask = ask
        self._own = own
        self._searches = DirectorySearches(self._way_to, lambda: members.suspects)
        self._tells: dict[int, OnLookupAnswer] = {}
        self._tasks: dict[asyncio.Task[None], int] = {}
        self._is_due = False
        self._loop = loop = asyncio.get_running_loop()
        searches = self._searches
        self._timer = DueTimer(loop, loop.time, searches.next_timer, self._give_up)
        self._failures = Failures(CountedLines(_log, loop.time))
        self._observing = None
        if follows is not None:
            self._observing = FleetObservations(
                members,
                access,
                follows.subscribe,
                targets=self._allowed,
                way_to=self._way_to,
                in_reach=follows.in_reach,
                respond_with=_found_links,
            )

    def answer(
        self, request: CoapRequest, peer: CoapPeer, now: float
    ) -> CoapResponse | PendingResponse | None:
        """Answer a look-up from this directory, or begin to ask those of the fleet."""
        path = _PATHS.get(tuple(request.values(option_numbers.URI_PATH)))
        if request.code != codes.GET or path is None:
            return None
        try:
            parameters = [one.decode() for one in request.values(option_numbers.URI_QUERY)]
            query = ScopedQuery.parse(parameters)
            if query is None:
                return self._of_own(request, parameters, peer, now)
            return self._of_fleet(request, path, query, peer)
        except UnicodeDecodeError:
            return None
        except (DirectoryError, ProtocolError) as wrong:
            return _refusal(wrong)

    def observe(self, exchange: int, request: CoapRequest, respond: RespondTo) -> bool:
        """Observe a look-up for an exchange; a part of an answer can't be observed."""
        observing = self._observing
        return observing is not None and observing.observe(exchange, request, respond)

    def ended(self, exchange: int) -> None:
        """Observe no longer for an exchange."""
        if self._observing is not None:
            self._observing.ended(exchange)

    async def stop(self) -> None:
        """End what is under way."""
        if self._observing is not None:
            self._observing.stop()
        self._timer.stop()
        for number in list(self._tells):
            self._end(number)
        tasks = list(self._tasks)
        await asyncio.gather(*tasks, return_exceptions=True)

    def _begin(
        self,
        looked_up: LookedUp,
        host: str,
        asked: tuple[CoapRequest, CoapPeer],
        tell: OnLookupAnswer,
    ) -> Callable[[], None]:
        """Ask, and tell what was found; returns what ends it."""
        if self._observing is not None:
            observing, done = self._observing, tell

            def tell(response: CoapResponse) -> None:
                observing.offer(looked_up, asked, response, done)

        found = targets(self._members, self._gateway_id, looked_up.query)
        number = self._searches.begin(
            looked_up, found, host, partial(self._may, looked_up), self._loop.time()
        )
        self._tells[number] = tell
        self._soon()
        return partial(self._end, number)

    def _of_fleet(
        self, request: CoapRequest, path: tuple[str, ...], query: ScopedQuery, peer: CoapPeer
    ) -> CoapResponse | PendingResponse:
        if not self._access.tells_all(request, peer):
            return CoapResponse(codes.UNAUTHORIZED, (), _NOT_TOLD)
        accept = request.value(option_numbers.ACCEPT)
        if accept is not None and decode_uint(accept) != LINK_FORMAT:
            return CoapResponse(codes.NOT_ACCEPTABLE, (), b"only link-format (40)")
        host = str(peer.host)
        if not self._searches.has_room(host):
            return _BUSY
        looked_up = LookedUp(path, query, self._access.principal(shown_by(peer)))
        targets(self._members, self._gateway_id, query)  # what is wrong with it is told at once
        return _Gathering(partial(self._begin, looked_up, host, (request, peer)))

    def _of_own(
        self, request: CoapRequest, parameters: list[str], peer: CoapPeer, now: float
    ) -> CoapResponse | PendingResponse | None:
        wanted = without_scope(parameters)
        if len(wanted) == len(parameters):
            return None  # the own directory is asked next
        options = [one for one in request.options if one[0] != option_numbers.URI_QUERY]
        options += [(option_numbers.URI_QUERY, one.encode()) for one in wanted]
        options.sort(key=lambda option: option[0])
        return self._own.answer(CoapRequest(request.code, tuple(options)), peer, now)

    # -- what is under way -----------------------------------------------------------------------

    def _soon(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        self._is_due = False
        now = self._loop.time()
        for number, question in self._searches.questions(now):
            task = asyncio.create_task(self._asked(number, question), name="fleet look-up")
            self._tasks[task] = number
            task.add_done_callback(lambda done: self._tasks.pop(done, None))
        for number, search in self._searches.take_over():
            self._cancel(number)
            tell = self._tells.pop(number)
            self._failures.tried("answer to a look-up", partial(_tell, tell, search))
        if self._searches.is_eager:
            self._soon()
        self._timer.set()

    async def _asked(self, number: int, question: DirectoryQuestion) -> None:
        looked_up, record = self._searches.looked_up(number), question.record
        assert isinstance(looked_up.asker, Principal)
        who = self._access.introduced(looked_up.asker)
        asked = looked_up.request(question.page, *who, count=question.count)
        try:
            response = await self._ask(record, asked)
        except (TimeoutError, TooManyError):
            self._searches.answered(number, record.id, None, self._loop.time())
        else:
            self._take(number, record.id, response)
        self._soon()

    def _take(self, number: int, gateway_id: str, response: ResourceResponse) -> None:
        now = self._loop.time()
        if is_too_long(response):
            self._searches.too_long(number, gateway_id, now)
        else:
            self._searches.answered(number, gateway_id, links_of(response), now)

    def _give_up(self, now: float) -> None:
        self._searches.handle_timer(now)
        self._go_on()

    def _end(self, number: int) -> None:
        self._tells.pop(number, None)
        self._searches.end(number)
        self._cancel(number)

    def _cancel(self, number: int) -> None:
        for task in [task for task, of in self._tasks.items() if of == number]:
            task.cancel()

    def _may(self, looked_up: LookedUp, record: MemberRecord) -> bool:
        if record.id == self._gateway_id:
            return True
        assert isinstance(looked_up.asker, Principal)
        there = (QUERY_SEGMENT, *record.prefix.split("/"), *looked_up.path)
        return self._access.may(looked_up.asker, "GET", there).is_allowed

    def _allowed(self, looked_up: LookedUp) -> list[MemberRecord]:
        found = targets(self._members, self._gateway_id, looked_up.query)
        return [record for record in found if self._may(looked_up, record)]

    def _way_to(self, record: MemberRecord) -> str:
        return "" if record.id == self._gateway_id else f"/{QUERY_SEGMENT}/{record.prefix}"


OnLookupAnswer = Callable[[CoapResponse], None]
_PATHS: Final = {
    tuple(segment.encode() for segment in path): path for path in (ENDPOINTS, RESOURCES)
}


class _Gathering:
    """An answer that is gathered from the directories of the fleet."""

    def __init__(self, begin: Callable[[OnLookupAnswer], Callable[[], None]]) -> None:
        self._begin = begin

    def begin(self, done: Callable[[CoapResponse], None], ask: AskForBody) -> Callable[[], None]:
        """Begin to gather."""
        return self._begin(done)


def _tell(tell: OnLookupAnswer, search: DirectorySearch) -> None:
    try:
        tell(_found(search.text()))
    except DirectoryError as wrong:
        tell(_refusal(wrong))


def _found_links(looked_up: LookedUp, links: list[WebLink]) -> CoapResponse:
    try:
        return _found(looked_up.query.written(links))
    except DirectoryError as wrong:
        return _refusal(wrong)


def _found(text: str) -> CoapResponse:
    links = Representation(text)
    options: list[Option] = [
        (option_numbers.ETAG, links.etag),
        (option_numbers.CONTENT_FORMAT, encode_uint(LINK_FORMAT)),
        (option_numbers.MAX_AGE, encode_uint(MAX_AGE_S)),
    ]
    return CoapResponse(codes.CONTENT, tuple(options), links.payload)


def _refusal(wrong: Exception) -> CoapResponse:
    return CoapResponse(codes.BAD_REQUEST, (), str(wrong).encode(errors="backslashreplace"))
