"""The gateway's page and its REST API, as the console serves them.

Who asks has logged in with the password of a user, and shows a cookie or a token; where nobody has
a password, who is on this machine is ``local``. What it may do then the policy says. A request that
changes something and comes with a cookie has to bring a word that another site does not know
(``X-Hedgerow-CSRF``).
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
from collections.abc import Awaitable, Callable, Mapping
from functools import cached_property
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import msgspec

from gateway.base.in_turns import others_first
from gateway.broker.access.passwords import Passwords
from gateway.process.console.exchange import ExchangeRules
from gateway.process.console.pages import HttpRequest, Page
from gateway.process.page import fields
from gateway.process.page.api_request import ApiRequest, Handlers
from gateway.process.page.audit_notes import WRONG_PASSWORD, AuditNotes
from gateway.process.page.routes import ApiRoute, find
from gateway.trust.policy.action import CONSOLE, Action
from gateway.trust.policy.policy import Policy
from gateway.trust.policy.principal import Principal
from gateway.trust.shares.failed_attempts import network_of
from gateway.web import browser_rules
from gateway.web.api_error import ApiError
from gateway.web.host_field import names_this_machine
from gateway.web.log_in import Token, WebLogIn
from gateway.web.page_files import content_type, served_files
from gateway.web.ready_answer import ReadyAnswer
from gateway.web.web_sessions import AGE_S
from light_dataclasses import dataclass
from tree_handler.rate_limit import RateLimit

PACKAGE: Final = "gateway.process.page"
SCRIPT: Final = "page.js"
AUTHORITY_PATH: Final = "/ca.pem"
PATH: Final = "/page"
"""In a policy: ``console /page``."""
BODY_BYTES_MAX: Final = 64 * 1024
RULES: Final = ExchangeRules(
    methods=("GET", "HEAD", "POST", "PUT", "DELETE"), body_bytes=BODY_BYTES_MAX, goes_on=True
)
REQUESTS_PER_S: Final = 20.0
REQUESTS_AT_ONCE: Final = 100
"""Of one visitor."""
STRANGERS_PER_S: Final = 5.0
STRANGERS_AT_ONCE: Final = 30
"""Of one address that has not logged in."""
_JSON: Final = "application/json"
_BEARER: Final = "bearer"
_LOOPBACK: Final = ("127.0.0.1", "::1")
_TOO_MANY: Final = "too many requests; wait a second"
_KEPT_OUT: Final = "the policy does not let you see this page"
_NOT_LOGGED_IN: Final = {
    "wrong": (HTTPStatus.UNAUTHORIZED, "user or password is wrong"),
    "later": (HTTPStatus.TOO_MANY_REQUESTS, "too many attempts; wait ten seconds"),
    "forbidden": (HTTPStatus.FORBIDDEN, _KEPT_OUT),
}
_REFUSALS: Final = (
    HTTPStatus.UNAUTHORIZED,
    HTTPStatus.FORBIDDEN,
    HTTPStatus.TOO_MANY_REQUESTS,
    HTTPStatus.MISDIRECTED_REQUEST,
)


@dataclass(frozen=True, slots=True)
class PageOwner:
    """The gateway that a page belongs to.

    Attributes:
        gateway_id: the gateway's.
        is_secure: whether it is HTTPS.
        names: that this machine is asked by, beside its addresses.
        authority: the file of the authority that vouches for it; None if there is none.

    """

    gateway_id: str
    is_secure: bool
    names: frozenset[str]
    authority: Path | None = None


@dataclass(frozen=True, slots=True)
class _Asker:
    """A visitor of the page, and how it has proved who it is."""

    visitor: Principal
    token: str
    by_cookie: bool


MayDo = Callable[[Principal], Mapping[str, bool]]


class PageFace:
    """Answers browsers and scripts.

    Args:
        owner: whose it is.
        door: knows who is logged in.
        handlers: answer the operations of `routes`, but those about log-in.
        notes: what was done and refused.
        may: what a visitor may do here, by name, for the page to show no more than that.

    Attributes:
        rules: what a connection may ask.

    """

    def __init__(
        self,
        owner: PageOwner,
        door: WebLogIn,
        handlers: Handlers,
        notes: AuditNotes,
        may: MayDo,
    ) -> None:
        self.rules = RULES
        self._owner = owner
        self._door = door
        self._notes = notes
        self._may = may
        self._handlers: Handlers = {**handlers, "document": self._document}
        self._headers = browser_rules.headers(is_secure=owner.is_secure)
        self._key = secrets.token_bytes(32)
        digest = hashlib.sha256(owner.gateway_id.encode()).hexdigest()[:12]
        self._cookie = f"hedgerow_{digest}"  # gateways of one machine share a browser's cookies
        self._rates = RateLimit(REQUESTS_PER_S, REQUESTS_AT_ONCE)
        self._stranger_rates = RateLimit(STRANGERS_PER_S, STRANGERS_AT_ONCE)

    def follow(self, policy: Policy, passwords: Passwords | None) -> None:
        """Go by another policy and other passwords."""
        self._door.replace(policy, passwords)

    # -- files -----------------------------------------------------------------------------------

    @cached_property
    def _files(self) -> Mapping[str, ReadyAnswer]:
        found = served_files(PACKAGE, SCRIPT)
        return {f"/{path}": ReadyAnswer.of_bytes(body) for path, body in found.items()}

    def answer(self, request: HttpRequest, host: str) -> Page | Awaitable[Page]:
        """Answer with a file of the page, or by the page's interface below ``/api/``."""
        if request.path.startswith("/api/"):
            return self._answered(request, host)
        if request.path == AUTHORITY_PATH and request.method in browser_rules.READING:
            return self._authority(host)
        return self._hardened(self._file(request))

    def knows(self, request: HttpRequest) -> str:
        """Return the visitor who sent a request; empty without a log-in."""
        asker = self._asker(request)
        return "" if asker is None else str(asker.visitor)

    def _file(self, request: HttpRequest) -> Page:
        if request.method not in browser_rules.READING:
            return _error(HTTPStatus.METHOD_NOT_ALLOWED, "only GET and HEAD")
        path = "/index.html" if request.path == "/" else request.path
        ready = self._files.get(path)
        if ready is None:
            return _error(HTTPStatus.NOT_FOUND, "there is nothing here")
        headers = {"ETag": ready.tag, "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
        if request.fields.get("if-none-match") == ready.tag:
            return Page(content_type(path), b"", HTTPStatus.NOT_MODIFIED, headers)
        if ready.zipped and "gzip" in request.fields.get("accept-encoding", ""):
            headers["Content-Encoding"] = "gzip"
            return Page(content_type(path), ready.zipped, headers=headers)
        return Page(content_type(path), ready.body, headers=headers)

    async def _authority(self, host: str) -> Page:
        """Show the authority whose certificates devices are to trust; each handshake has it too."""
        if not self._stranger_rates.allow(network_of(host), asyncio.get_running_loop().time()):
            return self._hardened(_error(HTTPStatus.TOO_MANY_REQUESTS, _TOO_MANY))
        pem = await asyncio.to_thread(_authorities, self._owner.authority)
        if not pem:
            return self._hardened(_error(HTTPStatus.NOT_FOUND, "there is nothing here"))
        return self._hardened(Page("application/x-pem-file", pem))

    def _hardened(self, page: Page) -> Page:
        headers = {**self._headers, **page.headers}
        return Page(page.content_type, page.body, page.status, headers, asks_for_password=False)

    # -- the API ---------------------------------------------------------------------------------

    async def _answered(self, request: HttpRequest, host: str) -> Page:
        who, route = "", None
        try:
            route, names = find(request.method, request.path)
            asker = self._asker(request)
            who = "" if asker is None else str(asker.visitor)
            self._check_sender(request, host)
            if route.is_open:
                page = await self._opened(route, request, host, asker)
            else:
                asker = self._let_in(asker, request, host)
                page = await self._done(route, names, request, host, asker)
        except ApiError as error:
            self._note_refusal(error, route, who, host)
            page = _error(error.status, error.why)
        return self._hardened(page)

    def _note_refusal(self, error: ApiError, route: ApiRoute | None, who: str, host: str) -> None:
        is_a_look = route is None or not route.change
        if error.status not in _REFUSALS or (
            is_a_look and not who and error.status is HTTPStatus.UNAUTHORIZED
        ):
            return  # a browser whose session has ended asks once more
        kind = f"{error.status.phrase.lower()}: {route.operation if route else 'no operation'}"
        self._notes.refused(kind, who or "stranger", host)

    def _check_sender(self, request: HttpRequest, host: str) -> None:
        """Refuse what another site has a browser send, and who sends too much."""
        if not self._door.asks:
            if host.removeprefix("::ffff:") not in _LOOPBACK:
                raise ApiError(HTTPStatus.FORBIDDEN, "only who is on this machine may look")
            if not names_this_machine(request.host, self._owner.names):
                raise ApiError(HTTPStatus.MISDIRECTED_REQUEST, "Host: not a name of this machine")
        sent = request.fields
        media = sent.get("content-type", "").partition(";")[0].strip().lower()
        if not request.body and request.method == "DELETE":
            media = _JSON  # a browser asks before it sends that for another site
        site, origin = sent.get("sec-fetch-site"), sent.get("origin")
        refused = browser_rules.why_foreign(request.method, request.host, origin, site, media)
        if refused is not None:
            raise ApiError(*refused)

    def _asker(self, request: HttpRequest) -> _Asker | None:
        """Return who shows a token or a cookie, or is on this machine; None for nobody."""
        now_s = asyncio.get_running_loop().time()
        scheme, _, token = request.authorization.partition(" ")
        by_cookie = not request.authorization
        if by_cookie:
            token = browser_rules.cookie(request.fields.get("cookie", ""), self._cookie)
        elif scheme.lower() != _BEARER:
            return None
        visitor = self._door.visitor(token.strip(), now_s)
        return None if visitor is None else _Asker(visitor, token.strip(), by_cookie)

    def _let_in(self, asker: _Asker | None, request: HttpRequest, host: str) -> _Asker:
        now_s = asyncio.get_running_loop().time()
        if asker is None:
            if not self._stranger_rates.allow(network_of(host), now_s):
                raise ApiError(HTTPStatus.TOO_MANY_REQUESTS, _TOO_MANY)
            raise ApiError(HTTPStatus.UNAUTHORIZED, "log in first")
        if not self._rates.allow(str(asker.visitor), now_s):
            raise ApiError(HTTPStatus.TOO_MANY_REQUESTS, _TOO_MANY)
        if not self._door.may_enter(asker.visitor):
            raise ApiError(HTTPStatus.FORBIDDEN, _KEPT_OUT)
        is_change = request.method not in browser_rules.READING
        if is_change and asker.by_cookie:
            given = request.fields.get("x-hedgerow-csrf", "")
            if not hmac.compare_digest(given.encode(), self._csrf(asker.token).encode()):
                raise ApiError(HTTPStatus.FORBIDDEN, "X-Hedgerow-CSRF: not the word of /me")
        return asker

    async def _done(
        self,
        route: ApiRoute,
        names: Mapping[str, str],
        request: HttpRequest,
        host: str,
        asker: _Asker,
    ) -> Page:
        query = fields.of_query(request.query, route.query)
        body = fields.of_body(request.body, route.body) if route.body else {}

        def check_still_in() -> None:
            now = self._asker(request)
            if now is None:
                raise ApiError(HTTPStatus.UNAUTHORIZED, "log in first")
            if now != asker:
                raise ApiError(HTTPStatus.FORBIDDEN, "your roles have changed; ask again")
            if not self._door.may_enter(now.visitor):
                raise ApiError(HTTPStatus.FORBIDDEN, _KEPT_OUT)

        asked = ApiRequest(asker.visitor, host, names, query, body, check_still_in)
        if route.operation == "log_out":
            self._door.log_out(asker.token)
            self._notes.came_or_went(str(asker.visitor), "logged out of the page", host)
            return self._with_cookie(_json({}), "", 0)
        told, outcome = None, "failed: it may be done in part"
        try:
            told = await self._handlers[route.operation](asked)
            if not route.change:
                await others_first()  # to write it down and to send it may take a turn as well
                check_still_in()  # it may have waited for half a minute
            outcome = "done"
        except ApiError as error:
            if error.status < HTTPStatus.INTERNAL_SERVER_ERROR:
                outcome = ""  # nothing was done
            raise
        finally:
            if route.change and outcome:
                noted = {one.name: body.get(one.name) for one in route.body if one.is_noted}
                self._notes.changed(
                    str(asker.visitor),
                    route.change,
                    address=host,
                    outcome=outcome,
                    **names,
                    **noted,
                )
        return told if isinstance(told, Page) else _json(told)

    # -- log-in ----------------------------------------------------------------------------------

    async def _opened(
        self, route: ApiRoute, request: HttpRequest, host: str, asker: _Asker | None
    ) -> Page:
        if not self._stranger_rates.allow(network_of(host), asyncio.get_running_loop().time()):
            raise ApiError(HTTPStatus.TOO_MANY_REQUESTS, _TOO_MANY)
        if route.operation == "me":
            return _json(self._me(asker))
        if route.operation == "document":
            return _json(await self._document())
        try:
            body = fields.of_body(request.body, route.body)
        except ApiError:
            self._door.failed(host)
            raise
        user, before = body["user"], asker
        done = await self._door.log_in(user, body["password"].encode(), host)
        if not isinstance(done, Token):
            status, why = _NOT_LOGGED_IN[done]
            counted_as = WRONG_PASSWORD if done == "wrong" else ""
            self._notes.refused(f"log-in: {done}", user, host, counted_as)
            return _error(status, why)
        if before is not None and before.by_cookie:
            self._door.log_out(before.token)
        self._notes.came_or_went(f"console:{user}", "logged in to the page", host)
        if route.operation == "make_token":
            return _json({"token": done.text, "lasts_s": AGE_S})
        return self._with_cookie(_json({"csrf": self._csrf(done.text)}), done.text, int(AGE_S))

    def _me(self, asker: _Asker | None) -> dict[str, Any]:
        visitor = None if asker is None else asker.visitor
        is_in = visitor is not None and self._door.may_enter(visitor)
        told: dict[str, Any] = {
            "gateway": self._owner.gateway_id,
            "user": visitor.name or None if visitor else None,
            "is_in": is_in,
            "asks": self._door.asks,
        }
        if asker is not None and visitor is not None and is_in:
            told["who"] = str(visitor)
            told["roles"] = sorted(self._door.policy.all_roles(visitor.roles))
            told["csrf"] = self._csrf(asker.token)
            told["may"] = self._may(visitor)
        return told

    async def _document(self, _asked: ApiRequest | None = None) -> Any:
        from gateway.process.page.openapi import document  # noqa: PLC0415  # for who reads it

        return document()

    def _csrf(self, token: str) -> str:
        return hmac.new(self._key, token.encode(), "sha256").hexdigest()

    def _with_cookie(self, page: Page, value: str, age_s: int) -> Page:
        secure = "; Secure" if self._owner.is_secure else ""
        cookie = f"{self._cookie}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={age_s}"
        headers = {**page.headers, "Set-Cookie": cookie + secure}
        return Page(page.content_type, page.body, page.status, headers)


def may_enter(policy: Policy, visitor: Principal) -> bool:
    """Return whether the policy lets somebody see the page."""
    return bool(policy.may(visitor, Action(CONSOLE, PATH, policy.here)))


def _authorities(file: Path | None) -> bytes:
    """Return the certificates of a file in PEM, and nothing else that it may hold."""
    if file is None:
        return b""
    from cryptography import x509  # noqa: PLC0415  # where there is an authority
    from cryptography.hazmat.primitives.serialization import Encoding  # noqa: PLC0415

    try:
        found = x509.load_pem_x509_certificates(file.read_bytes())
    except (OSError, ValueError):
        found = []
    return b"".join(one.public_bytes(Encoding.PEM) for one in found)


def _json(told: Any) -> Page:
    return Page(_JSON, msgspec.json.encode(told))


def _error(status: HTTPStatus, why: str) -> Page:
    return Page(_JSON, msgspec.json.encode({"error": why}), status)
