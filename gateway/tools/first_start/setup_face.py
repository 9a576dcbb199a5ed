"""The page of a first start and its few requests, as a console serves them.

Whoever asks is a neighbour (`near_links`), and knows the setup code (`setup_door`). A change takes
a word that another site does not know, as on the gateway's own page.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections.abc import Awaitable, Callable, Mapping
from functools import cached_property
from http import HTTPStatus
from typing import Any, Final

import msgspec

from gateway.process.console.exchange import ExchangeRules
from gateway.process.console.pages import HttpRequest, Page
from gateway.process.page import fields
from gateway.process.page.audit_notes import AuditNotes
from gateway.process.page.fields import FLAG, TEXT, Field
from gateway.tools.first_start.near_links import NearLinks
from gateway.tools.first_start.new_owner import CA, OwnedGateway
from gateway.tools.first_start.setup_card import TYPED_CHARACTERS_MAX
from gateway.tools.first_start.setup_door import DeniedError, SetupDoor, SetupStage
from gateway.web import browser_rules
from gateway.web.api_error import ApiError
from gateway.web.host_field import names_this_machine
from gateway.web.page_files import content_type, served_files
from gateway.web.ready_answer import ReadyAnswer
from light_dataclasses import dataclass
from tree_handler.rate_limit import RateLimit

PACKAGE: Final = "gateway.tools.first_start"
SCRIPT: Final = "page.js"
PREFIX: Final = "/api/v1/"
BODY_BYTES_MAX: Final = 8 * 1024
RULES: Final = ExchangeRules(
    methods=("GET", "HEAD", "POST"), body_bytes=BODY_BYTES_MAX, goes_on=True
)
REQUESTS_PER_S: Final = 10.0
REQUESTS_AT_ONCE: Final = 60
"""Of one address."""
COOKIE: Final = "hedgerow_first_start"
_JSON: Final = "application/json"
_DENIALS: Final[Mapping[str, tuple[HTTPStatus, str]]] = {
    "wrong": (HTTPStatus.FORBIDDEN, "code: is not the one of this gateway"),
    "later": (HTTPStatus.TOO_MANY_REQUESTS, "code: too many wrong ones; wait ten seconds"),
    "taken": (HTTPStatus.CONFLICT, "somebody else is setting this gateway up"),
    "over": (HTTPStatus.GONE, "this gateway has an owner, and the first start is over"),
    "stranger": (HTTPStatus.UNAUTHORIZED, "enter the setup code first"),
}
_CODE: Final = (
    Field("code", TEXT, "The setup code.", is_needed=True, most=TYPED_CHARACTERS_MAX),
    Field("instead", FLAG, "Take over from a browser that is setting this gateway up."),
)
_OWN: Final = tuple(
    Field(name, TEXT, what, is_needed=name != "place", most=256)
    for name, what in (
        ("name", "The name of the gateway."),
        ("place", "The place of the gateway: DOMAIN or DOMAIN/GROUP."),
        ("address", "The address at which clients reach the gateway."),
        ("user", "The user who administers the gateway."),
        ("password", "The password of that user."),
    )
)
_JOIN: Final = (
    Field("token", TEXT, "The token of `hedgerow keys token`.", is_needed=True, most=4_096),
)


@dataclass(frozen=True, slots=True)
class SetupDeeds:
    """The actions of a first start.

    The first two take the address of who asks, too, which the audit trail has, and raise `ApiError`
    where nothing is written.

    Attributes:
        own: makes a gateway with an authority of its own, from the fields of the form.
        join: makes a gateway of a fleet, from a token.
        drawing: a text as a QR code in SVG.

    """

    own: Callable[[Mapping[str, Any], str], Awaitable[OwnedGateway]]
    join: Callable[[str, str], Awaitable[OwnedGateway]]
    drawing: Callable[[str], bytes]


@dataclass(frozen=True, slots=True)
class SetupMachine:
    """The facts of this machine that the page knows.

    Attributes:
        name: that is proposed for the gateway.
        names: that the machine is asked by, beside its addresses.
        links: what it is linked to now.

    """

    name: str
    names: frozenset[str]
    links: Callable[[], NearLinks]


class SetupFace:
    """Answers browsers.

    Args:
        machine: what is known of it.
        door: decides who comes in.
        deeds: what is done.
        notes: what was done and refused.
        finished: is called when the owner has seen all that there is to see.

    Attributes:
        rules: what a connection may ask.
        owned: the gateway, once it is there.

    """

    def __init__(
        self,
        machine: SetupMachine,
        door: SetupDoor,
        deeds: SetupDeeds,
        notes: AuditNotes,
        finished: Callable[[], None],
    ) -> None:
        self.rules = RULES
        self.owned: OwnedGateway | None = None
        self._machine = machine
        self._door = door
        self._deeds = deeds
        self._notes = notes
        self._finished = finished
        self._key = secrets.token_bytes(32)
        self._headers = browser_rules.headers(is_secure=True)
        # The gateway's own page may have another certificate, and no browser is to be kept out.
        self._headers.pop("Strict-Transport-Security", None)
        self._rates = RateLimit(REQUESTS_PER_S, REQUESTS_AT_ONCE)

    @cached_property
    def _files(self) -> Mapping[str, ReadyAnswer]:
        found = served_files(PACKAGE, SCRIPT)
        return {f"/{path}": ReadyAnswer.of_bytes(body) for path, body in found.items()}

    def knows(self, request: HttpRequest) -> str:
        """Return ``owner`` for a sender who has given the code; empty for others."""
        return "owner" if self._door.is_held_by(_cookie_of(request), _now_s()) else ""

    def answer(self, request: HttpRequest, host: str) -> Page | Awaitable[Page]:
        """Answer with a file of the page, or by its interface."""
        try:
            self._check_sender(request, host)
        except ApiError as error:
            return self._hardened(self._refused(error, request, host))
        if request.path.startswith(PREFIX):
            return self._answered(request, host)
        return self._hardened(self._file(request))

    def _check_sender(self, request: HttpRequest, host: str) -> None:
        """Refuse who is no neighbour or asks too much, and what another site sends."""
        if not self._rates.allow(host, _now_s()):
            raise ApiError(HTTPStatus.TOO_MANY_REQUESTS, "too many requests; wait a second")
        far = self._machine.links().why_far(host)
        if far:
            raise ApiError(HTTPStatus.FORBIDDEN, far)
        if not names_this_machine(request.host, self._machine.names):
            raise ApiError(HTTPStatus.MISDIRECTED_REQUEST, "Host: not a name of this machine")
        sent = request.fields
        media = sent.get("content-type", "").partition(";")[0].strip().lower()
        site, origin = sent.get("sec-fetch-site"), sent.get("origin")
        foreign = browser_rules.why_foreign(request.method, request.host, origin, site, media)
        if foreign is not None:
            raise ApiError(*foreign)

    # -- what is read ----------------------------------------------------------------------------

    def _file(self, request: HttpRequest) -> Page:
        if request.method not in browser_rules.READING:
            return _error(HTTPStatus.METHOD_NOT_ALLOWED, "only GET and HEAD")
        if request.path == f"/{CA}":
            if self.owned is None:
                return _error(HTTPStatus.NOT_FOUND, "there is no authority yet")
            return Page("application/x-pem-file", self.owned.ca)
        path = "/index.html" if request.path == "/" else request.path
        ready = self._files.get(path)
        if ready is None:
            return _error(HTTPStatus.NOT_FOUND, "there is nothing here")
        return Page(content_type(path), ready.body)

    def _told(self, token: str) -> Mapping[str, Any]:
        """Return what the page shows: to a visitor who has not given the code only the stage."""
        is_in = self._door.is_held_by(token, _now_s())
        if not is_in:
            return {"stage": self._door.stage.value, "is_in": False}
        told = {"stage": self._door.stage.value, "is_in": True, "csrf": self._csrf(token)}
        if self.owned is not None:
            return {**told, "owned": self.owned.as_json()}
        addresses = self._machine.links().kept()
        return {**told, "name": self._machine.name, "addresses": addresses}

    # -- what is done ----------------------------------------------------------------------------

    async def _answered(self, request: HttpRequest, host: str) -> Page:
        try:
            page = await self._done(request, host)
        except DeniedError as denied:
            status, why = _DENIALS[denied.why]
            held = f", at {denied.holder}" if denied.holder else ""
            page = self._refused(ApiError(status, f"{why}{held}"), request, host)
        except ApiError as error:
            page = self._refused(error, request, host)
        return self._hardened(page)

    async def _done(self, request: HttpRequest, host: str) -> Page:
        token = _cookie_of(request)
        asked = (request.method, request.path.removeprefix(PREFIX))
        if asked == ("GET", "setup"):
            return _json(self._told(token))
        if asked == ("GET", "invitation.svg"):
            if self.owned is None or not self._door.is_held_by(token, _now_s()):
                raise ApiError(HTTPStatus.NOT_FOUND, "there is nothing here")
            return Page("image/svg+xml", self._deeds.drawing(self.owned.invitation()))
        if asked == ("POST", "code"):
            return self._entered(fields.of_body(request.body, _CODE), host)
        if request.method != "POST" or asked[1] not in ("own", "join", "finish"):
            raise ApiError(HTTPStatus.NOT_FOUND, "there is nothing here")
        self._check_word(request, token)
        if asked[1] == "finish":
            return self._ended(host)
        if asked[1] == "own":
            body = fields.of_body(request.body, _OWN)
            return await self._worked(token, lambda: self._deeds.own(body, host))
        body = fields.of_body(request.body, _JOIN)
        return await self._worked(token, lambda: self._deeds.join(body["token"].strip(), host))

    def _check_word(self, request: HttpRequest, token: str) -> None:
        if not self._door.is_held_by(token, _now_s()):
            raise DeniedError("over" if self.owned is not None else "stranger")
        given = request.fields.get("x-hedgerow-csrf", "")
        if not hmac.compare_digest(given.encode(), self._csrf(token).encode()):
            raise ApiError(HTTPStatus.FORBIDDEN, "X-Hedgerow-CSRF: not the word of /setup")

    def _entered(self, body: Mapping[str, Any], host: str) -> Page:
        instead = bool(body.get("instead"))
        token = self._door.enter(body["code"], host, _now_s(), instead=instead)
        self._notes.changed("owner", "setup code given", address=host, instead=instead)
        page = _json({"csrf": self._csrf(token)})
        cookie = f"{COOKIE}={token}; Path=/; HttpOnly; SameSite=Strict; Secure"
        return Page(page.content_type, page.body, page.status, {"Set-Cookie": cookie})

    async def _worked(self, token: str, work: Callable[[], Awaitable[OwnedGateway]]) -> Page:
        self._door.begin(token, _now_s())
        # What is being written goes on when the browser leaves.
        return await asyncio.shield(asyncio.ensure_future(self._written(work)))

    async def _written(self, work: Callable[[], Awaitable[OwnedGateway]]) -> Page:
        try:
            owned = await work()
        except BaseException:
            self._door.failed()
            raise
        self.owned = owned
        self._door.done()
        return _json({"owned": owned.as_json()})

    def _ended(self, host: str) -> Page:
        if self._door.stage is SetupStage.CLOSED:
            raise DeniedError("over")
        if self._door.stage is not SetupStage.DONE:
            raise ApiError(HTTPStatus.CONFLICT, "the gateway has no owner yet")
        self._notes.changed("owner", "first start closed", address=host)
        self._door.close()
        self._finished()
        return _json({})

    # -- how it is said --------------------------------------------------------------------------

    def _refused(self, error: ApiError, request: HttpRequest, host: str) -> Page:
        if error.status is not HTTPStatus.NOT_FOUND:
            what = request.path.rpartition("/")[2][:32]
            self._notes.refused(
                f"{error.status.phrase.lower()}: first start: {what}", "guest", host
            )
        return _error(error.status, error.why)

    def _csrf(self, token: str) -> str:
        return hmac.new(self._key, token.encode(), "sha256").hexdigest()

    def _hardened(self, page: Page) -> Page:
        headers = {**self._headers, **page.headers}
        return Page(page.content_type, page.body, page.status, headers, asks_for_password=False)


def _now_s() -> float:
    return asyncio.get_running_loop().time()


def _json(told: Any) -> Page:
    return Page(_JSON, msgspec.json.encode(told))


def _error(status: HTTPStatus, why: str) -> Page:
    return Page(_JSON, msgspec.json.encode({"error": why}), status)


def _cookie_of(request: HttpRequest) -> str:
    return browser_rules.cookie(request.fields.get("cookie", ""), COOKIE)
