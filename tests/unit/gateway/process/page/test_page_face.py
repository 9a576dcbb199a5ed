"""The face of a page, without a gateway: who comes in, how often, and what is noted of it."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import json
from collections.abc import Awaitable
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
from argon2 import PasswordHasher
from authority import Authority

from gateway.base.event_log.audit import AuditTrail
from gateway.broker.access.passwords import Passwords
from gateway.process.console.pages import HttpRequest, Page
from gateway.process.page.api_request import ApiRequest
from gateway.process.page.audit_notes import AuditNotes
from gateway.process.page.face import PageFace, PageOwner, may_enter
from gateway.trust.policy import policy_file
from gateway.trust.policy.policy import Policy
from gateway.web.api_error import ApiError
from gateway.web.log_in import WebLogIn

HERE, ELSEWHERE = "127.0.0.1", "192.0.2.7"
HASHER = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
POLICY = """version = 1
[principals]
"console:anna" = ["admin"]
"console:nina" = []
local = ["reader"]
"""
MESSAGE = b'{"topic": "a", "payload": "x"}'
JSON = {"content-type": "application/json; charset=utf-8"}


class House:
    """A page of gw-a, what it was asked, and what was noted."""

    def __init__(self, folder: Path, *, has_users: bool = True, **owner: Any) -> None:
        self.users = Passwords({user: HASHER.hash(user) for user in ("anna", "nina")})
        door = WebLogIn(self.policy(), self.users if has_users else None, may_enter)
        self.counted: list[tuple[str, str]] = []
        self.trail = AuditTrail(folder / "audit.jsonl")
        notes = AuditNotes(self.trail, lambda *told: self.counted.append(told))
        known = {"is_secure": False, "names": frozenset({"gw.example"})}
        made = PageOwner("gw-a", **{**known, **owner})
        handlers = {"status": self.status, "publish": self.publish}
        self.face = PageFace(made, door, handlers, notes, lambda _visitor: {"publish": True})
        self.error: Exception | None = None

    @staticmethod
    def policy(text: str = POLICY) -> Policy:
        return Policy(policy_file.parse(text, "access.toml", frozenset()))

    async def status(self, asked: ApiRequest) -> Any:
        return {"who": str(asked.visitor), "host": asked.host}

    async def publish(self, asked: ApiRequest) -> Any:
        if self.error is not None:
            raise self.error
        return {}

    async def ask(
        self, method: str, path: str, host: str = ELSEWHERE, body: bytes = b"", **more: Any
    ) -> Page:
        fields = {**(JSON if method == "POST" else {}), **more.pop("fields", {})}
        request = HttpRequest(method, path, host="gw.example", **more, fields=fields, body=body)
        page = self.face.answer(request, host)
        return await page if isinstance(page, Awaitable) else page

    async def token(self, user: str = "anna") -> str:
        body = json.dumps({"user": user, "password": user}).encode()
        page = await self.ask("POST", "/api/v1/tokens", body=body)
        assert page.status == HTTPStatus.OK
        told = json.loads(page.body)
        assert told["lasts_s"] == 24 * 3600
        return str(told["token"])

    @property
    def noted(self) -> list[tuple[str, str, Any]]:
        return [(one.who, one.what, one.of.get("outcome")) for one in self.trail.changes()]


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


def why(page: Page) -> tuple[int, str]:
    return int(page.status), json.loads(page.body)["error"]


async def test_without_users_only_who_is_on_this_machine_looks_by_a_name_of_it(
    tmp_path: Path,
) -> None:
    house = House(tmp_path, has_users=False)
    for host in (HERE, "::1", "::ffff:127.0.0.1"):
        assert (await house.ask("GET", "/api/v1/status", host)).status == HTTPStatus.OK
    for host in (ELSEWHERE, "127.0.0.2", "::2"):
        told = why(await house.ask("GET", "/api/v1/status", host))
        assert told == (403, "only who is on this machine may look")
    request = HttpRequest("GET", "/api/v1/status", host="evil.example")
    page = house.face.answer(request, HERE)
    assert isinstance(page, Awaitable)
    assert why(await page) == (421, "Host: not a name of this machine")


@pytest.mark.parametrize("proof", ["", "Basic YW5uYTphbm5h", "Bearer", "Bearer wrong", "token x"])
async def test_who_shows_no_token_has_to_log_in(house: House, proof: str) -> None:
    page = await house.ask("GET", "/api/v1/status", authorization=proof)
    assert why(page) == (401, "log in first")
    assert house.counted == []  # a browser whose session has ended asks once more
    page = await house.ask("POST", "/api/v1/messages", authorization=proof, body=MESSAGE)
    assert why(page) == (401, "log in first")
    assert house.counted == [("page: unauthorized: publish", f"'stranger' ({ELSEWHERE})")]


async def test_a_token_is_taken_in_whatever_case_and_a_cookie_only_with_its_word(
    house: House,
) -> None:
    token = await house.token()
    for proof in (f"Bearer {token}", f"bearer  {token} "):
        page = await house.ask("GET", "/api/v1/status", authorization=proof)
        assert json.loads(page.body) == {"who": "console:anna", "host": ELSEWHERE}
    name = "hedgerow_" + hashlib.sha256(b"gw-a").hexdigest()[:12]
    cookie = {"cookie": f"other=1; {name}={token}"}
    assert (await house.ask("GET", "/api/v1/status", fields=cookie)).status == HTTPStatus.OK
    told = why(await house.ask("POST", "/api/v1/messages", fields=cookie, body=MESSAGE))
    assert told == (403, "X-Hedgerow-CSRF: not the word of /me")
    me = json.loads((await house.ask("GET", "/api/v1/me", fields=cookie)).body)
    assert (me["who"], me["is_in"], me["may"]) == ("console:anna", True, {"publish": True})
    word = {**cookie, "x-hedgerow-csrf": me["csrf"]}
    page = await house.ask("POST", "/api/v1/messages", fields=word, body=MESSAGE)
    assert page.status == HTTPStatus.OK
    page = await house.ask("POST", "/api/v1/logout", fields=word, body=b"{}")
    assert f"{name}=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0" in page.headers["Set-Cookie"]
    assert (await house.ask("GET", "/api/v1/status", fields=cookie)).status == 401
    assert house.noted == [
        ("console:anna", "logged in to the page", None),
        ("console:anna", "refused at the page", None),
        ("console:anna", "message published", "done"),
        ("console:anna", "logged out of the page", None),
    ]


async def test_who_has_another_password_is_out_and_who_may_no_more_is_told_so(
    house: House,
) -> None:
    proof = f"Bearer {await house.token()}"
    kept_out = (403, "the policy does not let you see this page")
    body = b'{"user": "nina", "password": "nina"}'
    assert why(await house.ask("POST", "/api/v1/login", body=body)) == kept_out
    for closed in (
        POLICY.replace('["admin"]', "[]"),
        POLICY + '[[rules]]\nwho = ["console:anna"]\ndeny = ["console /#"]\n',
    ):
        house.face.follow(house.policy(closed), house.users)
        assert why(await house.ask("GET", "/api/v1/status", authorization=proof)) == kept_out
        me = json.loads((await house.ask("GET", "/api/v1/me", authorization=proof)).body)
        assert (me["user"], me["is_in"], "may" in me) == ("anna", False, False)
    house.face.follow(house.policy(), house.users)
    assert (await house.ask("GET", "/api/v1/status", authorization=proof)).status == HTTPStatus.OK
    house.face.follow(house.policy(), Passwords({"anna": HASHER.hash("other")}))
    page = await house.ask("GET", "/api/v1/status", authorization=proof)
    assert why(page) == (401, "log in first")


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (None, "done"),
        (ApiError(HTTPStatus.CONFLICT, "no"), None),
        (ApiError(HTTPStatus.INTERNAL_SERVER_ERROR, "no"), "failed: it may be done in part"),
        (OSError("no disk"), "failed: it may be done in part"),
    ],
)
async def test_what_may_be_done_is_noted_and_what_was_refused_is_not(
    house: House, error: Exception | None, outcome: str | None
) -> None:
    proof = f"Bearer {await house.token()}"
    house.error = error
    work = house.ask("POST", "/api/v1/messages", authorization=proof, body=MESSAGE)
    if isinstance(error, OSError):
        with pytest.raises(OSError, match="no disk"):
            await work
    else:
        page = await work
        assert int(page.status) == (200 if error is None else int(getattr(error, "status", 0)))
    changes = [one for one in house.noted if one[1] == "message published"]
    assert [one[2] for one in changes] == ([] if outcome is None else [outcome])


async def test_100_requests_of_a_visitor_and_30_of_a_stranger_are_answered_at_once(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: 100.0)
    proof = f"Bearer {await house.token()}"

    async def many(count: int, **more: Any) -> list[int]:
        pages = [await house.ask("GET", "/api/v1/status", **more) for _ in range(count)]
        return [int(page.status) for page in pages]

    assert await many(101, authorization=proof) == [*[200] * 100, 429]
    told = [await house.ask("GET", "/api/v1/status", "198.51.100.1") for _ in range(31)]
    assert [int(page.status) for page in told] == [*[401] * 30, 429]
    assert why(told[-1]) == (429, "too many requests; wait a second")
    opened = [await house.ask("GET", "/api/v1/me", "198.51.100.2") for _ in range(31)]
    assert [int(page.status) for page in opened] == [*[200] * 30, 429]
    files = [await house.ask("GET", "/ca.pem", "198.51.100.3") for _ in range(31)]
    assert [int(page.status) for page in files] == [*[404] * 30, 429]


async def test_the_authority_of_a_gateway_is_shown_without_what_else_its_file_holds(
    tmp_path: Path,
) -> None:
    file = Authority(tmp_path).file
    pem = file.read_bytes()
    for data, told in ((pem, pem), (b"a key beside\n" + pem, pem), (b"none", None), (None, None)):
        if data is None:
            file.unlink()
        else:
            file.write_bytes(data)
        page = await House(tmp_path, authority=file).ask("GET", "/ca.pem")
        if told is None:
            assert why(page) == (404, "there is nothing here")
        else:
            assert (page.content_type, page.body) == ("application/x-pem-file", told)


async def test_a_file_is_sent_once_packed_where_a_browser_takes_that(house: House) -> None:
    first = await house.ask("GET", "/")
    assert (first.status, first.content_type.partition(";")[0]) == (HTTPStatus.OK, "text/html")
    assert first.headers["Cache-Control"] == "no-cache"
    tag = first.headers["ETag"]
    again = await house.ask("GET", "/index.html", fields={"if-none-match": tag})
    assert (again.status, again.body) == (HTTPStatus.NOT_MODIFIED, b"")
    plain = await house.ask("GET", "/page.js")
    packed = await house.ask("GET", "/page.js", fields={"accept-encoding": "br, gzip"})
    assert packed.headers["Content-Encoding"] == "gzip"
    assert "Content-Encoding" not in plain.headers
    assert gzip.decompress(packed.body) == plain.body
    assert why(await house.ask("GET", "/none")) == (404, "there is nothing here")
    assert why(await house.ask("POST", "/")) == (405, "only GET and HEAD")
    assert all("Content-Security-Policy" in page.headers for page in (first, again, packed))


@pytest.mark.parametrize("is_secure", [False, True])
async def test_a_cookie_is_for_https_alone_where_the_page_is(
    tmp_path: Path, *, is_secure: bool
) -> None:
    house = House(tmp_path, is_secure=is_secure)
    body = b'{"user": "anna", "password": "anna"}'
    page = await house.ask("POST", "/api/v1/login", body=body)
    assert page.headers["Set-Cookie"].endswith("Max-Age=86400" + "; Secure" * is_secure)
    assert ("Strict-Transport-Security" in page.headers) == is_secure
    wrong = b'{"user": "anna", "password": "x"}'
    told = why(await house.ask("POST", "/api/v1/login", body=wrong))
    assert told == (401, "user or password is wrong")
