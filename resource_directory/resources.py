"""The directory's interfaces as aiocoap resources, which ask `DirectoryService`.

Simple registration and observation are not among them: aiocoap's resources can't ask the peer that
asks them, and observe one resource whatever the query.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from aiocoap import Code, Message, error, resource

from resource_directory.exchange import DirectoryRequest, Fetch, SlowLookUp
from resource_directory.service import (
    DISCOVERY,
    ENDPOINTS,
    REGISTER,
    RESOURCES,
    DirectoryService,
)

Identify = Callable[[Message], str | None]
WallClock = Callable[[], float]


class ResourceDirectory:
    """The directory on an aiocoap site.

    Args:
        service: what it serves.
        identify: who sent a request; None for an anonymous peer.
        clock: the registry's time, seconds, rising steadily.

    """

    def __init__(
        self, service: DirectoryService, identify: Identify, *, clock: WallClock = time.monotonic
    ) -> None:
        self.service = service
        self._identify = identify
        self._clock = clock

    def add_to(self, site: resource.Site, *, are_observed: bool = False, scopes: str = "") -> None:
        """Put the interfaces on a site.

        Args:
            site: where.
            are_observed: who serves the site lets look-ups be observed; their links say so.
            scopes: which directories it can look into; the look-ups' links say so.

        """
        described = {link.href: dict(link.attributes) for link in DISCOVERY}
        asked = self.respond, self.service.payload_bytes_max
        for path in (REGISTER, RESOURCES, ENDPOINTS):
            attributes = described["/" + "/".join(path)]
            if not are_observed:
                attributes.pop("obs", None)
            if scopes and path != REGISTER:
                attributes["scope"] = scopes
            site.add_resource(path, _Interface(*asked, path, attributes))
        site.add_resource(REGISTER, _Registrations(*asked, REGISTER))

    async def respond(self, request: Message, path: tuple[str, ...]) -> Message:
        """Have the service answer an aiocoap request.

        Args:
            request: what is asked.
            path: of what is asked, from the root.

        """
        options = request.opt
        asked = DirectoryRequest(
            int(request.code),
            path,
            tuple(options.uri_query),
            request.payload,
            _number(options.content_format),
            _number(options.accept),
            tuple(options.etags),
            self._identify(request),
            _base(request),
        )
        answer = self.service.answer(asked, self._clock())
        while isinstance(answer, SlowLookUp):
            await asyncio.sleep(0)
            answer = self.service.go_on(answer) or answer
        if isinstance(answer, Fetch):
            return Message(code=Code.NOT_IMPLEMENTED)
        response = Message(code=Code(answer.code), payload=answer.payload)
        response.opt.content_format = answer.content_format
        response.opt.location_path = answer.location_path
        response.opt.max_age = answer.max_age
        response.opt.etag = answer.etag
        return response


Respond = Callable[[Message, tuple[str, ...]], Awaitable[Message]]


class _Interface(resource.Resource):  # type: ignore[misc]  # aiocoap has no types
    def __init__(
        self,
        respond: Respond,
        bytes_max: int,
        path: tuple[str, ...],
        attributes: dict[str, str | None] | None = None,
    ) -> None:
        super().__init__()
        self._respond = respond
        self._bytes_max = bytes_max
        self._path = path
        self._attributes = attributes

    def get_link_description(self) -> dict[str, str | None] | None:
        # Without one: registrations are found by look-ups, not in /.well-known/core.
        return self._attributes

    async def needs_blockwise_assembly(self, request: Message) -> bool:
        block = request.opt.block1
        if block is not None and block.start + len(request.payload) > self._bytes_max:
            raise error.RequestEntityTooLarge(f"more than {self._bytes_max} bytes")
        return True

    async def render(self, request: Message) -> Message:
        return await self._respond(request, (*self._path, *request.opt.uri_path))


class _Registrations(_Interface, resource.PathCapable):  # type: ignore[misc]  # as above
    """All below ``/rd``."""


def _base(request: Message) -> str | None:
    try:
        return str(request.remote.uri_base)
    except error.AnonymousHost:
        return None


def _number(form: int | None) -> int | None:
    return None if form is None else int(form)
