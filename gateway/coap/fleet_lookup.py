"""Look-ups in the directories of a group, a domain or the whole fleet, asked at any gateway.

``/rd-lookup/ep`` and ``/rd-lookup/res`` with ``scope=`` group, domain or all, or with ``gw=``: the
directories of other gateways are asked for it, in the name of who asks, so the policy of each
decides what is told. Those whose digests say that they have nothing of it are not asked
(`resource_directory.digest`, which is in each gateway's record). See decision 31.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import Final

from coap_engine import codes, option_numbers
from coap_engine.message import CoapPeer, CoapRequest, CoapResponse, Option
from coap_engine.uint import decode_uint, encode_uint
from gateway.coap.access import CoapAccess
from gateway.coap.at_hand import Ask, AtHand, Later, Respond
from gateway.coap.execution import QUERY_SEGMENT
from gateway.coap.kept_lookups import KeptLookUps
from gateway.coap.peers import shown_by
from gateway.policy.principal import Principal
from resource_directory.digest import may_have
from resource_directory.errors import DirectoryError, InvalidParameterError
from resource_directory.exchange import LINK_FORMAT
from resource_directory.link_format import LinkFormatError, WebLink, parse
from resource_directory.representation import Representation
from resource_directory.scoped import LookUpScope, ScopedQuery, ServingGateway, without_scope
from resource_directory.service import ENDPOINTS, RESOURCES
from tree_handler.errors import ProtocolError
from tree_handler.hierarchy import ANY, Membership
from tree_handler.member import NONE, MemberRecord, Place
from tree_handler.remote_query import TooManyError
from tree_handler.remote_resource import ResourceRequest, ResourceResponse

SCOPES: Final = " ".join(scope.value for scope in LookUpScope)
AT_ONCE: Final = 16
"""Gateways that are asked at the same time for one look-up ..."""
ASKED_MAX: Final = 64
"""... and at most: each question and each answer goes over the whole tree."""
UNDER_WAY: Final = 8
PER_HOST: Final = 2
PAGE_LINKS: Final = 200
LINKS_MAX: Final = 2_000
"""Of one gateway; the others are found with narrower criteria."""
DEADLINE_S: Final = 5.0
MAX_AGE_S: Final = 5

AskGateway = Callable[[MemberRecord, ResourceRequest], Awaitable[ResourceResponse]]
"""Has a request executed by a gateway, this one included.

Raises `TimeoutError`, or `TooManyError` if too many wait already.
"""
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

    """

    def __init__(
        self,
        gateway_id: str,
        members: Membership,
        access: CoapAccess,
        ask: AskGateway,
        own: AtHand,
    ) -> None:
        self._gateway_id = gateway_id
        self._members = members
        self._access = access
        self._ask = ask
        self._own = own
        self._kept = KeptLookUps()
        self._tasks: dict[asyncio.Task[None], str] = {}

    def answer(
        self, request: CoapRequest, peer: CoapPeer, now: float
    ) -> CoapResponse | Later | None:
        """See `gateway.coap.at_hand.AtHand`."""
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

    def observe(self, exchange: int, request: CoapRequest, respond: Respond) -> bool:
        """See `gateway.coap.at_hand.AtHand`: answers of others can't be observed."""
        return False

    def ended(self, exchange: int) -> None:
        """See `gateway.coap.at_hand.AtHand`."""

    async def stop(self) -> None:
        """End what is under way."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def begin(
        self, looked_up: _LookedUp, targets: Sequence[MemberRecord], host: str, tell: Tell
    ) -> Callable[[], None]:
        """Ask, and tell what was found; returns what ends it."""
        task = asyncio.create_task(self._gather(looked_up, targets, tell), name="fleet look-up")
        self._tasks[task] = host
        task.add_done_callback(lambda done: self._tasks.pop(done, None))

        def end() -> None:
            task.cancel()

        return end

    def _of_fleet(
        self, request: CoapRequest, path: tuple[str, ...], query: ScopedQuery, peer: CoapPeer
    ) -> CoapResponse | Later:
        if not self._access.tells_all(request, peer):
            return CoapResponse(codes.UNAUTHORIZED, (), _NOT_TOLD)
        accept = request.value(option_numbers.ACCEPT)
        if accept is not None and decode_uint(accept) != LINK_FORMAT:
            return CoapResponse(codes.NOT_ACCEPTABLE, (), b"only link-format (40)")
        targets, host = self._targets(query), str(peer.host)
        if len(self._tasks) >= UNDER_WAY or list(self._tasks.values()).count(host) >= PER_HOST:
            return _BUSY
        looked_up = _LookedUp(path, query, self._access.principal(shown_by(peer)))
        return _Gathering(partial(self.begin, looked_up, targets, host), request)

    def _of_own(
        self, request: CoapRequest, parameters: list[str], peer: CoapPeer, now: float
    ) -> CoapResponse | Later | None:
        wanted = without_scope(parameters)
        if len(wanted) == len(parameters):
            return None  # the own directory is asked next
        options = [one for one in request.options if one[0] != option_numbers.URI_QUERY]
        options += [(option_numbers.URI_QUERY, one.encode()) for one in wanted]
        options.sort(key=lambda option: option[0])
        return self._own.answer(CoapRequest(request.code, tuple(options)), peer, now)

    def _targets(self, query: ScopedQuery) -> list[MemberRecord]:
        own = self._members.get(self._gateway_id)
        place = Place() if own is None else own.place
        domain, group, node = ANY, ANY, query.gateway or ANY
        if query.scope in (LookUpScope.DOMAIN, LookUpScope.GROUP):
            domain = place.domain or NONE
        if query.scope is LookUpScope.GROUP:
            group = place.group or NONE
        if query.scope is LookUpScope.OWN:
            node = self._gateway_id if node in (ANY, self._gateway_id) else node
        found = self._members.find(query.domain or ANY, query.group or ANY, node)
        within = {record.id for record in self._members.find(domain, group, ANY)}
        return [
            record
            for record in found
            if record.id in within
            and record.capability > 0
            and all(may_have(record.offers, criterion) for criterion in query.criteria)
        ]

    async def _gather(
        self, looked_up: _LookedUp, targets: Sequence[MemberRecord], tell: Tell
    ) -> None:
        query, found, asked = looked_up.query, list[WebLink](), 0
        now = asyncio.get_running_loop().time()
        try:
            for at in range(0, len(targets), AT_ONCE):
                batch = targets[at : at + AT_ONCE]
                asked += sum(self._kept.fresh(looked_up.key(one), now) is None for one in batch)
                if asked > ASKED_MAX:
                    why = f"more than {ASKED_MAX} gateways: narrow it by d, gp or gw, or ask later"
                    raise InvalidParameterError(why)
                for links in await asyncio.gather(*(self._of(one, looked_up) for one in batch)):
                    found += links
                if query.wanted is not None and len(found) >= query.wanted:
                    break
            text = query.written(found)
        except (DirectoryError, LinkFormatError) as wrong:
            tell(_refusal(wrong))
            return
        tell(_found(text))

    async def _of(self, record: MemberRecord, looked_up: _LookedUp) -> list[WebLink]:
        loop, key = asyncio.get_running_loop(), looked_up.key(record)
        serving = self._serving(record)
        links = self._kept.fresh(key, loop.time())
        if links is None and record.id not in self._members.suspects:
            try:
                links = await self._asked(record, looked_up)
            except (TimeoutError, TooManyError, LinkFormatError):
                links = None
            else:
                self._kept.keep(key, links, loop.time())
        if links is not None:
            return [serving.located(link) for link in links]
        age_s, known = self._kept.stale(key, loop.time())
        return [serving.located(link, age_s) for link in known]

    async def _asked(self, record: MemberRecord, looked_up: _LookedUp) -> list[WebLink]:
        """What a gateway tells of its own directory, page by page.

        Raises:
            TimeoutError: it did not answer, or not with links.
            LinkFormatError: what it answered is none.
            TooManyError: too many wait for others.

        """
        found: list[WebLink] = []
        if record.id != self._gateway_id and not self._may(looked_up.principal, record, looked_up):
            return found
        for page in range(LINKS_MAX // PAGE_LINKS):
            request = looked_up.request(self._access, page)
            response = await self._ask(record, request)
            if codes.is_success(response.code):
                links = parse(response.payload)
            elif response.code >> 5 == _CLIENT_ERROR:  # its policy does not let them read there
                links = []
            else:
                raise TimeoutError(f"{record.id} answered {response.code}")
            found += links
            if len(links) < PAGE_LINKS:
                break
        return found

    def _may(self, principal: Principal, record: MemberRecord, looked_up: _LookedUp) -> bool:
        there = (QUERY_SEGMENT, *record.prefix.split("/"), *looked_up.path)
        return self._access.may(principal, "GET", there).is_allowed

    def _serving(self, record: MemberRecord) -> ServingGateway:
        way = "" if record.id == self._gateway_id else f"/{QUERY_SEGMENT}/{record.prefix}"
        ports = (("coap", record.coap_port), ("coaps", record.coaps_port))
        return ServingGateway(record.id, way, record.address, ports)


Tell = Callable[[CoapResponse], None]
_CLIENT_ERROR: Final = 4
_PATHS: Final = {
    tuple(segment.encode() for segment in path): path for path in (ENDPOINTS, RESOURCES)
}


class _LookedUp:
    """What is looked up, and for whom."""

    def __init__(self, path: tuple[str, ...], query: ScopedQuery, principal: Principal) -> None:
        self.path = path
        self.query = query
        self.principal = principal

    def key(self, record: MemberRecord) -> tuple[object, ...]:
        """Under which an answer of a gateway is kept."""
        return record.id, self.path, self.query.asked, self.principal

    def request(self, access: CoapAccess, page: int) -> ResourceRequest:
        """What a gateway is asked."""
        query = (*self.query.asked, f"count={PAGE_LINKS}", f"page={page}")
        who = access.introduced(self.principal)
        return ResourceRequest("GET", self.path, query, None, LINK_FORMAT, b"", *who)


class _Gathering:
    """See `gateway.coap.at_hand.Later`."""

    def __init__(self, begin: Callable[[Tell], Callable[[], None]], request: CoapRequest) -> None:
        self._begin = begin
        self._etags = tuple(request.values(option_numbers.ETAG))

    def begin(self, done: Callable[[CoapResponse], None], ask: Ask) -> Callable[[], None]:
        """See `gateway.coap.at_hand.Later`."""

        def tell(response: CoapResponse) -> None:
            etag = dict(response.options).get(option_numbers.ETAG)
            if etag is not None and etag in self._etags:
                response = CoapResponse(codes.VALID, tuple(_options(etag)))
            done(response)

        return self._begin(tell)


def _found(text: str) -> CoapResponse:
    links = Representation(text)
    options = [*_options(links.etag), (option_numbers.CONTENT_FORMAT, encode_uint(LINK_FORMAT))]
    return CoapResponse(codes.CONTENT, tuple(sorted(options)), links.payload)


def _options(etag: bytes) -> Iterator[Option]:
    yield option_numbers.ETAG, etag
    yield option_numbers.MAX_AGE, encode_uint(MAX_AGE_S)


def _refusal(wrong: Exception) -> CoapResponse:
    return CoapResponse(codes.BAD_REQUEST, (), str(wrong).encode(errors="backslashreplace"))
