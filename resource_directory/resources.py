"""The interfaces of RFC 9176 as aiocoap resources.

``/rd`` registers (section 5), ``/rd/NUMBER`` is a registration (5.3), ``/rd-lookup/res`` and
``/rd-lookup/ep`` answer look-ups (6). They are discovered by their ``rt`` in ``/.well-known/core``
(4.3). Simple registration (5.1) is not offered.

Who writes is asked of a callable; whether a writer may write at all is decided before a request
comes here.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from aiocoap import Code, ContentFormat, Message, error, resource

from resource_directory.errors import (
    DirectoryError,
    DirectoryFullError,
    InvalidParameterError,
    NoSuchRegistrationError,
    NotOwnerError,
    TooLargeError,
)
from resource_directory.link_format import LinkFormatError, parse, serialise
from resource_directory.lookup import LookupQuery
from resource_directory.registration import DEFAULT_LIFETIME_S
from resource_directory.registry import Registry

MAX_PAYLOAD_BYTES = 128 << 10
SWEEP_S = 10.0
"""Longest pause between two looks at what has expired; look-ups do not depend on it."""
RETRY_AFTER_S = 60

Identify = Callable[[Message], str | None]
Clock = Callable[[], float]

_CODES: dict[type[DirectoryError], Code] = {
    InvalidParameterError: Code.BAD_REQUEST,
    NotOwnerError: Code.FORBIDDEN,
    NoSuchRegistrationError: Code.NOT_FOUND,
    TooLargeError: Code.REQUEST_ENTITY_TOO_LARGE,
    DirectoryFullError: Code.SERVICE_UNAVAILABLE,
}


class ResourceDirectory:
    """The CoAP face of a registry.

    Args:
        registry: what it serves.
        identify: who sent a request; None for an anonymous peer.
        clock: the registry's time, seconds, rising steadily.

    """

    def __init__(
        self, registry: Registry, identify: Identify, *, clock: Clock = time.monotonic
    ) -> None:
        self.registry = registry
        self._identify = identify
        self._clock = clock

    def add_to(self, site: resource.Site) -> None:
        """Put the interfaces on a site."""
        site.add_resource(["rd"], _Register(self.registry, self._identify, self._clock))
        site.add_resource(["rd"], _Registration(self.registry, self._identify, self._clock))
        site.add_resource(["rd-lookup", "res"], _ResourceLookUp(self.registry, self._clock))
        site.add_resource(["rd-lookup", "ep"], _EndpointLookUp(self.registry, self._clock))

    async def run(self) -> None:
        """Free what has expired, in slices, until cancelled (A12)."""
        while True:
            now = self._clock()
            if self.registry.expire(now):
                await asyncio.sleep(0)
                continue
            next_at = self.registry.next_timer()
            await asyncio.sleep(SWEEP_S if next_at is None else min(SWEEP_S, next_at - now))


class _Resource(resource.Resource):  # type: ignore[misc]  # aiocoap has no types
    """Turns the registry's errors into responses with a diagnostic."""

    async def needs_blockwise_assembly(self, request: Message) -> bool:
        block = request.opt.block1
        if block is not None and block.start + len(request.payload) > MAX_PAYLOAD_BYTES:
            raise error.RequestEntityTooLarge(f"more than {MAX_PAYLOAD_BYTES} bytes")
        return True

    async def render(self, request: Message) -> Message:
        try:
            return await super().render(request)
        except LinkFormatError as refused:
            return Message(code=Code.BAD_REQUEST, payload=str(refused).encode())
        except DirectoryError as refused:
            code = _CODES[type(refused)]
            response = Message(code=code, payload=str(refused).encode())
            if code == Code.SERVICE_UNAVAILABLE:
                response.opt.max_age = RETRY_AFTER_S
            return response


class _Register(_Resource):
    rt = "core.rd"
    ct = int(ContentFormat.LINKFORMAT)

    def __init__(self, registry: Registry, identify: Identify, clock: Clock) -> None:
        super().__init__()
        self._registry = registry
        self._identify = identify
        self._clock = clock

    async def render_post(self, request: Message) -> Message:
        if request.opt.content_format not in (None, ContentFormat.LINKFORMAT):
            raise error.UnsupportedContentFormat("only link-format (40)")
        parameters = _Parameters(request)
        base = parameters.take("base")
        registration = self._registry.register(
            parameters.take("ep") or "",
            parse(request.payload, max_bytes=MAX_PAYLOAD_BYTES),
            self._clock(),
            base=base or source_base(request),
            base_is_explicit=base is not None,
            sector=parameters.take("d") or "",
            lifetime_s=parameters.lifetime_s() or DEFAULT_LIFETIME_S,
            attributes=parameters.rest(),
            owner=self._identify(request),
        )
        location = registration.location.removeprefix("/").split("/")
        return Message(code=Code.CREATED, location_path=location)


class _Registration(_Resource, resource.PathCapable):  # type: ignore[misc]  # aiocoap has no types
    def __init__(self, registry: Registry, identify: Identify, clock: Clock) -> None:
        super().__init__()
        self._registry = registry
        self._identify = identify
        self._clock = clock

    async def render_post(self, request: Message) -> Message:
        if request.payload:
            raise error.BadRequest("an update has no payload")
        parameters = _Parameters(request)
        base = parameters.take("base")
        self._registry.update(
            _location(request),
            self._clock(),
            base=base,
            source_base=None if base is not None else source_base(request),
            lifetime_s=parameters.lifetime_s(),
            attributes=parameters.rest(),
            owner=self._identify(request),
        )
        return Message(code=Code.CHANGED)

    async def render_delete(self, request: Message) -> Message:
        self._registry.remove(_location(request), self._clock(), owner=self._identify(request))
        return Message(code=Code.DELETED)

    async def render_get(self, request: Message) -> Message:
        registration = self._registry.get(_location(request), self._clock())
        return _links_message(request, serialise(registration.links))


class _LookUp(_Resource):
    ct = int(ContentFormat.LINKFORMAT)

    def __init__(self, registry: Registry, clock: Clock) -> None:
        super().__init__()
        self._registry = registry
        self._clock = clock


class _ResourceLookUp(_LookUp):
    rt = "core.rd-lookup-res"

    async def render_get(self, request: Message) -> Message:
        query = LookupQuery.parse(request.opt.uri_query)
        return _links_message(
            request, serialise(self._registry.find_resources(query, self._clock()))
        )


class _EndpointLookUp(_LookUp):
    rt = "core.rd-lookup-ep"

    async def render_get(self, request: Message) -> Message:
        query = LookupQuery.parse(request.opt.uri_query)
        return _links_message(
            request, serialise(self._registry.find_endpoints(query, self._clock()))
        )


class _Parameters:
    """The parameters of a registration's query (RFC 9176, section 5)."""

    def __init__(self, request: Message) -> None:
        self._left: list[tuple[str, str]] = []
        for parameter in request.opt.uri_query:
            name, _, value = parameter.partition("=")
            self._left.append((name, value))

    def take(self, name: str) -> str | None:
        """The value of a parameter that may be given once; None if it is not."""
        values = [value for left, value in self._left if left == name]
        if len(values) > 1:
            raise InvalidParameterError("given twice", name)
        self._left = [(left, value) for left, value in self._left if left != name]
        return values[0] if values else None

    def lifetime_s(self) -> int | None:
        """``lt``, seconds."""
        text = self.take("lt")
        if text is None:
            return None
        # 0 is refused here, where it can still be told from a lifetime that is not given.
        if not (text.isascii() and text.isdigit() and len(text) <= 10) or int(text) == 0:
            raise InvalidParameterError("lt is not 1 to 4294967295", text)
        return int(text)

    def rest(self) -> list[tuple[str, str]]:
        """What was not taken."""
        return self._left


def source_base(request: Message) -> str:
    """The base of a registration that names none: the requester's scheme, address and port.

    Raises:
        InvalidParameterError: the address can't be written as a URI.

    """
    try:
        return str(request.remote.uri_base)
    except error.AnonymousHost as unknown:
        raise InvalidParameterError("base is missing") from unknown


def _location(request: Message) -> str:
    return "/rd/" + "/".join(request.opt.uri_path)


def _links_message(request: Message, links: str) -> Message:
    if request.opt.accept not in (None, ContentFormat.LINKFORMAT):
        raise error.NotAcceptable("only link-format (40)")
    return Message(payload=links.encode(), content_format=ContentFormat.LINKFORMAT)
