"""Rules for every answer: headers, who may ask, and errors as JSON."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from aiohttp import web

from cloud_ingest.dashboard.connections import has_asked
from cloud_ingest.dashboard.entrance import Entrance
from cloud_ingest.query.lake import LakeError
from gateway.trust.policy.principal import Principal
from gateway.web import browser_rules
from gateway.web.api_error import ApiError
from gateway.web.host_field import names_this_machine

COOKIE: Final = "hedgerow_dashboard"
VISITOR: Final[web.RequestKey[Principal]] = web.RequestKey("visitor", Principal)
_OPEN: Final = ("/api/login", "/api/me")
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class Hardening:
    """Tells browsers in every answer what not to do.

    Attributes:
        is_secure: whether it is HTTPS.
        images: from which other place pictures may come, as a content security policy names it;
            empty for none.

    """

    is_secure: bool
    images: str = ""

    def apply(self, answer: web.StreamResponse) -> None:
        """Set the headers that every answer has."""
        answer.headers.update(browser_rules.headers(is_secure=self.is_secure, images=self.images))
        answer.headers.setdefault("Cache-Control", "no-store")


def guard(entrance: Entrance, hardening: Hardening) -> Callable[..., Awaitable[web.StreamResponse]]:
    """Make the middleware that checks each request and hardens each answer.

    Args:
        entrance: decides who may ask.
        hardening: of each answer.

    """

    async def checked(request: web.Request, handler: _Handler) -> web.StreamResponse:
        try:
            _check_origin(request, entrance)
            if request.path.startswith("/api/") and request.path not in _OPEN:
                request[VISITOR] = _allowed(request, entrance)
            has_asked(request.transport, is_known=entrance.door.asks and VISITOR in request)
            return await handler(request)
        except ApiError as error:
            return web.json_response({"error": error.why}, status=error.status)
        except LakeError as error:
            return web.json_response({"error": str(error)}, status=HTTPStatus.SERVICE_UNAVAILABLE)
        except web.HTTPException as error:
            return web.json_response({"error": error.reason}, status=error.status)

    @web.middleware
    async def middleware(request: web.Request, handler: _Handler) -> web.StreamResponse:
        answer = await checked(request, handler)
        if not answer.prepared:
            hardening.apply(answer)
        return answer

    return middleware


def _allowed(request: web.Request, entrance: Entrance) -> Principal:
    now_s = asyncio.get_running_loop().time()
    visitor = entrance.door.visitor(request.cookies.get(COOKIE, ""), now_s)
    if visitor is None:
        raise ApiError(HTTPStatus.UNAUTHORIZED, "log in first")
    if not entrance.may_read(visitor):
        raise ApiError(HTTPStatus.FORBIDDEN, "the policy does not let you see the dashboard")
    return visitor


def _check_origin(request: web.Request, entrance: Entrance) -> None:
    """Refuse what another site has the browser send.

    Without log-in a name that another site has made point to this machine (DNS rebinding) would
    do to read all.
    """
    if not entrance.door.asks and not names_this_machine(request.host):
        raise ApiError(HTTPStatus.FORBIDDEN, "Host: not a name of this machine")
    refused = browser_rules.why_foreign(
        request.method,
        request.host,
        request.headers.get("Origin"),
        request.headers.get("Sec-Fetch-Site"),
        request.content_type,
    )
    if refused is not None:
        raise ApiError(*refused)
