"""The interfaces of RFC 9176, answered without I/O.

``/rd`` registers (section 5), ``/.well-known/rd`` registers simply (5.1), what ``/rd`` named is a
registration (5.3), ``/rd-lookup/res`` and ``/rd-lookup/ep`` answer look-ups (6). They are
discovered by their ``rt`` in ``/.well-known/core`` (4.3), for which `DISCOVERY` has their links.

Who may write at all is decided before a request comes here, and so is whether it is fresh (5.3.4).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from resource_directory import exchange
from resource_directory.errors import (
    BusyError,
    DirectoryError,
    DirectoryFullError,
    InvalidParameterError,
    NoSuchRegistrationError,
    NotOwnerError,
    TooLargeError,
)
from resource_directory.exchange import (
    LINK_FORMAT,
    DirectoryAnswer,
    DirectoryRequest,
    Fetch,
    SlowLookUp,
)
from resource_directory.link_format import LinkFormatError, TooManyLinksError, WebLink
from resource_directory.parameters import QueryParameters
from resource_directory.payloads import ParsedPayloads, ReadLately
from resource_directory.query import LookupQuery
from resource_directory.registration import DEFAULT_LIFETIME_S
from resource_directory.registry import Registry
from resource_directory.representation import Representation
from resource_directory.search import LinkSearch
from resource_directory.simple import SimpleRegistration, SimpleRegistrations
from resource_directory.watches import Watches

CHECKS_AT_ONCE: Final = 4_000
"""So much of a look-up is done in one call, some milliseconds on a Pi."""
RETRY_AFTER_S: Final = 60
"""The Max-Age of the refusal when the directory is full."""
RETRY_FETCH_S: Final = 5
"""The Max-Age of the refusal when too many registrants are being asked."""

REGISTER = ("rd",)
SIMPLE = (".well-known", "rd")
RESOURCES = ("rd-lookup", "res")
ENDPOINTS = ("rd-lookup", "ep")
PATHS = (REGISTER, SIMPLE, RESOURCES, ENDPOINTS)
"""All that the directory is asked by; each registration has one more below the first."""

DISCOVERY = (
    WebLink("/rd", (("rt", "core.rd"), ("ct", str(LINK_FORMAT)))),
    WebLink(
        "/rd-lookup/res", (("rt", "core.rd-lookup-res"), ("ct", str(LINK_FORMAT)), ("obs", None))
    ),
    WebLink(
        "/rd-lookup/ep", (("rt", "core.rd-lookup-ep"), ("ct", str(LINK_FORMAT)), ("obs", None))
    ),
)
"""The links of the interfaces for ``/.well-known/core`` (RFC 9176, section 4.3)."""

_CODES: dict[type[DirectoryError], int] = {
    InvalidParameterError: exchange.BAD_REQUEST,
    NotOwnerError: exchange.FORBIDDEN,
    NoSuchRegistrationError: exchange.NOT_FOUND,
    TooLargeError: exchange.TOO_LARGE,
    DirectoryFullError: exchange.UNAVAILABLE,
    BusyError: exchange.UNAVAILABLE,
}
_RETRY_S: dict[type[DirectoryError], int] = {
    DirectoryFullError: RETRY_AFTER_S,
    BusyError: RETRY_FETCH_S,
}

Handler: TypeAlias = Callable[[DirectoryRequest, float], DirectoryAnswer | SlowLookUp]
_Interface: TypeAlias = Mapping[int, Handler]


class DirectoryService:
    """A registry as its peers see it.

    Simple registration needs the caller's help. Where `answer` gives a `Fetch`, the caller GETs its
    URI from the peer that asked (Accept 40, following blocks, to the address that the request
    came from and, over DTLS, in the same session), keeps the request open meanwhile, and answers
    it with what `fetched` says of the response, or of its absence at the deadline.

    A look-up that goes through very many comes as a `SlowLookUp`: the caller asks `go_on` in later
    turns, until it has the answer.

    Observation (RFC 7641) needs it, too. For a GET with Observe 0 the caller asks `watch` besides
    `answer`. After each call that may change something (`answer`, `fetched`, and `expire` of the
    registry) it asks `take_changed` and answers the requests of those watches again, with the time
    and its peer's view of then; one whose ETag is as before need not be sent. When the
    observation ends it calls `unwatch`.

    Args:
        registry: what is served.
        watches: one of the registry's listeners; None where nothing is watched.

    """

    def __init__(self, registry: Registry, watches: Watches | None = None) -> None:
        self.registry = registry
        self._watches = watches
        self._simple = SimpleRegistrations()
        self._parsed = ParsedPayloads(registry.links_max)
        self._read_lately = ReadLately()
        self._interfaces: Mapping[tuple[str, ...], _Interface] = {
            REGISTER: {exchange.POST: self._register},
            RESOURCES: {exchange.GET: self._find_resources},
            ENDPOINTS: {exchange.GET: self._find_endpoints},
        }
        self._of_registration: _Interface = {
            exchange.GET: self._read,
            exchange.POST: self._update,
            exchange.DELETE: self._remove,
        }

    @property
    def payload_bytes_max(self) -> int:
        """Return how long a registration's payload may be."""
        return self._parsed.bytes_max

    def serves(self, path: tuple[str, ...]) -> bool:
        """Return whether a path is one of the directory's."""
        return path in self._interfaces or path == SIMPLE or path[:1] == REGISTER

    def answer(self, request: DirectoryRequest, now: float) -> DirectoryAnswer | Fetch | SlowLookUp:
        """Answer a request, or say what is to be done first; raises nothing.

        Args:
            request: what is asked.
            now: the registry's time.

        """
        try:
            if request.path == SIMPLE and request.method == exchange.POST:
                return self._register_simply(request, now)
            return self._handler(request)(request, now)
        except (DirectoryError, LinkFormatError) as refused:
            return _refusal(refused)

    def go_on(self, slow: SlowLookUp) -> DirectoryAnswer | None:
        """Go on with a look-up; its answer, or None if it is not at its end. Raises nothing."""
        try:
            return _found(slow)
        except DirectoryError as refused:
            return _refusal(refused)

    def fetched(
        self,
        key: int,
        payload: bytes | None,
        now: float,
        *,
        content_format: int | None = LINK_FORMAT,
        max_age_s: int | None = None,
    ) -> DirectoryAnswer:
        """Register what was fetched, and answer who asked for it; raises nothing.

        Args:
            key: of the fetch.
            payload: what the registrant answered; None if it did not, or not with 2.05.
            now: the time.
            content_format: of the payload, if the registrant named it.
            max_age_s: how long it says that it is fresh, seconds.

        """
        try:
            asked = self._simple.take(key)
            if payload is None:
                return _diagnosed(exchange.GATEWAY_TIMEOUT, f"no links from {asked.base}")
            if content_format not in (None, LINK_FORMAT):
                return _diagnosed(exchange.BAD_GATEWAY, "the registrant has no link-format (40)")
            try:
                links = self._parsed.links(payload)
            except LinkFormatError as error:
                return _diagnosed(exchange.BAD_GATEWAY, f"the registrant's links: {error}")
            self._put_simple(asked, links, now)
            self._simple.fetched(asked, max_age_s, now)
        except DirectoryError as refused:
            return _refusal(refused)
        return DirectoryAnswer(exchange.CHANGED)

    def watch(self, request: DirectoryRequest) -> int | None:
        """Watch the look-up that a GET asks for.

        Returns:
            The watch's number; None if this can't be watched, as RFC 7641, section 4.1, lets a
            server do: the request is answered without Observe.

        """
        if self._watches is None or request.method != exchange.GET:
            return None
        if request.path not in (RESOURCES, ENDPOINTS):
            return None
        try:
            query = self._query(request)
            return self._watches.add(query, of_endpoints=request.path == ENDPOINTS)
        except DirectoryError:
            return None

    def unwatch(self, watch: int) -> None:
        """End a watch."""
        if self._watches is not None:
            self._watches.discard(watch)

    def take_changed(self) -> list[int]:
        """Return the watches whose look-ups may have changed since this was last asked."""
        return [] if self._watches is None else self._watches.take_changed()

    def _handler(self, request: DirectoryRequest) -> Handler:
        path = request.path
        interface = self._interfaces.get(path)
        if interface is None:
            if path == SIMPLE:
                interface = {}
            elif path[:1] == REGISTER:
                interface = self._of_registration
            else:
                return _no_such_path
        return interface.get(request.method, _no_such_method)

    # -- registrations ---------------------------------------------------------------------------

    def _register(self, request: DirectoryRequest, now: float) -> DirectoryAnswer:
        if request.content_format not in (None, LINK_FORMAT):
            return _diagnosed(exchange.UNSUPPORTED_FORMAT, "only link-format (40)")
        parameters = QueryParameters(request.query)
        base = parameters.take("base")
        registration = self.registry.register(
            parameters.take("ep") or "",
            self._parsed.links(request.payload),
            now,
            base=base or _source(request),
            base_is_explicit=base is not None,
            sector=parameters.take("d") or "",
            lifetime_s=parameters.lifetime_s() or DEFAULT_LIFETIME_S,
            attributes=parameters.rest(),
            owner=request.owner,
        )
        location = tuple(registration.location[1:].split("/"))
        return DirectoryAnswer(exchange.CREATED, location_path=location)

    def _register_simply(self, request: DirectoryRequest, now: float) -> DirectoryAnswer | Fetch:
        if request.payload:
            raise InvalidParameterError("a simple registration has no payload")
        parameters = QueryParameters(request.query)
        if parameters.take("base") is not None:
            raise InvalidParameterError("base is not for a simple registration")
        asked = SimpleRegistration(
            parameters.take("ep") or "",
            parameters.take("d") or "",
            parameters.lifetime_s(),
            tuple(parameters.rest()),
            request.owner,
            _source(request),
        )
        standing = self.registry.standing(asked.endpoint, asked.sector, now)
        if standing is not None and standing.owner != asked.owner:
            raise NotOwnerError("registered by another", asked.endpoint)
        if standing is not None and self._simple.is_fresh(asked, now):
            self._put_simple(asked, standing.links, now)
            return DirectoryAnswer(exchange.CHANGED)
        # What would be refused whatever the links are is refused before anybody is asked.
        self.registry.check(
            asked.endpoint, asked.base, sector=asked.sector, attributes=asked.attributes
        )
        return self._simple.fetch(asked, now)

    def _put_simple(
        self, asked: SimpleRegistration, links: tuple[WebLink, ...], now: float
    ) -> None:
        self.registry.register(
            asked.endpoint,
            links,
            now,
            base=asked.base,
            base_is_explicit=False,
            sector=asked.sector,
            lifetime_s=asked.lifetime_s or DEFAULT_LIFETIME_S,
            attributes=asked.attributes,
            owner=asked.owner,
        )

    def _update(self, request: DirectoryRequest, now: float) -> DirectoryAnswer:
        if request.payload:
            raise InvalidParameterError("an update has no payload")
        parameters = QueryParameters(request.query)
        base = parameters.take("base")
        self.registry.update(
            _location(request),
            now,
            base=base,
            source_base=None if base is not None else request.base,
            lifetime_s=parameters.lifetime_s(),
            attributes=parameters.rest(),
            owner=request.owner,
        )
        return DirectoryAnswer(exchange.CHANGED)

    def _remove(self, request: DirectoryRequest, now: float) -> DirectoryAnswer:
        self.registry.remove(_location(request), now, owner=request.owner)
        return DirectoryAnswer(exchange.DELETED)

    def _read(self, request: DirectoryRequest, now: float) -> DirectoryAnswer:
        if request.accept not in (None, LINK_FORMAT):
            return _not_acceptable()
        registration = self.registry.get(_location(request), now)
        return _links(request, self._read_lately.links(registration))

    # -- look-ups --------------------------------------------------------------------------------

    def _query(self, request: DirectoryRequest) -> LookupQuery:
        query = LookupQuery.parse(request.query)
        return query.located(lambda path: self.registry.at(path) is not None)

    def _find_resources(
        self, request: DirectoryRequest, now: float
    ) -> DirectoryAnswer | SlowLookUp:
        query = self._query(request)
        return _begun(request, self.registry.find_resources(query, now))

    def _find_endpoints(
        self, request: DirectoryRequest, now: float
    ) -> DirectoryAnswer | SlowLookUp:
        query = self._query(request)
        return _begun(request, self.registry.find_endpoints(query, now))


def _source(request: DirectoryRequest) -> str:
    if request.base is None:
        raise InvalidParameterError("base is missing")
    return request.base


def _location(request: DirectoryRequest) -> str:
    return "/" + "/".join(request.path)


def _begun(request: DirectoryRequest, search: LinkSearch) -> DirectoryAnswer | SlowLookUp:
    if request.accept not in (None, LINK_FORMAT):
        return _not_acceptable()
    slow = SlowLookUp(request, search)
    return _found(slow) or slow


def _found(slow: SlowLookUp) -> DirectoryAnswer | None:
    if not slow.search.go_on(CHECKS_AT_ONCE):
        return None
    return _links(slow.request, Representation(",".join(slow.search.texts)))


def _links(request: DirectoryRequest, links: Representation) -> DirectoryAnswer:
    if links.etag in request.etags:
        return DirectoryAnswer(exchange.VALID, etag=links.etag)
    return DirectoryAnswer(exchange.CONTENT, links.payload, LINK_FORMAT, etag=links.etag)


def _not_acceptable() -> DirectoryAnswer:
    return _diagnosed(exchange.NOT_ACCEPTABLE, "only link-format (40)")


def _no_such_path(request: DirectoryRequest, _now: float) -> DirectoryAnswer:
    return _diagnosed(exchange.NOT_FOUND, f"no /{'/'.join(request.path)[:80]}")


def _no_such_method(_request: DirectoryRequest, _now: float) -> DirectoryAnswer:
    return DirectoryAnswer(exchange.METHOD_NOT_ALLOWED)


def _refusal(refused: DirectoryError | LinkFormatError) -> DirectoryAnswer:
    if isinstance(refused, TooManyLinksError):
        return _diagnosed(exchange.TOO_LARGE, refused.what)
    if isinstance(refused, LinkFormatError):
        return _diagnosed(exchange.BAD_REQUEST, str(refused))
    code = _CODES[type(refused)]
    return DirectoryAnswer(
        code, str(refused).encode(errors="backslashreplace"), max_age=_RETRY_S.get(type(refused))
    )


def _diagnosed(code: int, what: str) -> DirectoryAnswer:
    return DirectoryAnswer(code, what.encode(errors="backslashreplace"))
