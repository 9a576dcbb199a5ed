"""The page of a first start serves neighbours who have the code, and tells others why not."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Mapping
from http import HTTPStatus
from itertools import count
from typing import Any, cast

import pytest

from gateway.process.console.pages import HttpRequest, Page
from gateway.process.page.audit_notes import AuditNotes
from gateway.tools.first_start.near_links import NearLinks, OwnAddress
from gateway.tools.first_start.new_owner import OwnedGateway
from gateway.tools.first_start.setup_door import SetupDoor
from gateway.tools.first_start.setup_face import (
    REQUESTS_AT_ONCE,
    SetupDeeds,
    SetupFace,
    SetupMachine,
)
from gateway.web.api_error import ApiError

CODE, NEIGHBOUR, FAR = "0123456789AB", "192.168.1.20", "10.0.0.1"
OWNED = OwnedGateway("gw-a", "192.168.1.7", 8883, 8443, "ab" * 32, b"PEM")
FORM = {"name": "gw-a", "address": "192.168.1.7", "user": "anna", "password": "secret"}


class NotedSteps:
    """Takes the notes of the audit trail."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def changed(self, who: str, what: str, **of: object) -> None:
        self.notes.append(f"{who}: {what} {of}")

    def refused(self, kind: str, who: str, host: str) -> None:
        self.notes.append(f"{who} at {host}: {kind}")


class Visited:
    """A page, and a browser with the cookie and the word that it was given."""

    def __init__(self) -> None:
        self.audit, self.finished, self.fails = NotedSteps(), 0, False
        numbers = count()
        own = OwnAddress(ipaddress.ip_interface("192.168.1.7/24"), 2)
        machine = SetupMachine(
            "gw-new", frozenset({"pi.local"}), lambda: NearLinks((own,), frozenset())
        )
        deeds = SetupDeeds(self._own, self._join, lambda text: f"<svg>{text}".encode())
        door = SetupDoor(CODE, lambda: f"token-{next(numbers)}")
        notes = cast(AuditNotes, self.audit)
        self.face = SetupFace(machine, door, deeds, notes, self._finish)
        self.cookie, self.word = "", ""

    async def _own(self, form: Mapping[str, Any], host: str) -> OwnedGateway:
        if self.fails:
            raise ApiError(HTTPStatus.CONFLICT, "name: is taken")
        assert (form, host) == (FORM, NEIGHBOUR)
        return OWNED

    async def _join(self, token: str, _host: str) -> OwnedGateway:
        assert token == "a token"
        return OWNED

    def _finish(self) -> None:
        self.finished += 1

    async def page(
        self, method: str, path: str, body: object = None, *, host: str = NEIGHBOUR, **more: str
    ) -> Page:
        fields = {"content-type": "application/json", "cookie": self.cookie}
        fields |= {"x-hedgerow-csrf": self.word} | {
            name.replace("_", "-"): value for name, value in more.items()
        }
        data = b"" if body is None else json.dumps(body).encode()
        request = HttpRequest(method, path, host="192.168.1.7", fields=fields, body=data)
        answer = self.face.answer(request, host)
        return answer if isinstance(answer, Page) else await answer

    async def says(
        self, method: str, path: str, body: object = None, **more: str
    ) -> tuple[int, dict[str, Any]]:
        page = await self.page(method, f"/api/v1/{path}", body, **more)
        return int(page.status), json.loads(page.body)

    async def enter(self) -> None:
        page = await self.page("POST", "/api/v1/code", {"code": CODE})
        self.cookie = page.headers["Set-Cookie"].partition(";")[0]
        assert page.headers["Set-Cookie"].endswith("; Path=/; HttpOnly; SameSite=Strict; Secure")
        self.word = json.loads(page.body)["csrf"]


@pytest.fixture
def visited() -> Visited:
    return Visited()


async def test_from_the_code_to_the_end_each_step_is_told_and_noted(visited: Visited) -> None:
    assert await visited.says("GET", "setup") == (200, {"stage": "code", "is_in": False})
    assert await visited.says("POST", "own", FORM) == (401, {"error": "enter the setup code first"})
    await visited.enter()
    status, told = await visited.says("GET", "setup")
    assert (status, told["is_in"], told["name"]) == (200, True, "gw-new")
    assert (told["csrf"], told["addresses"]) == (visited.word, ["192.168.1.7"])
    assert await visited.says("POST", "finish") == (
        409,
        {"error": "the gateway has no owner yet"},
    )
    assert (await visited.page("GET", "/ca.pem")).body == b'{"error":"there is no authority yet"}'
    visited.fails = True
    assert await visited.says("POST", "own", FORM) == (409, {"error": "name: is taken"})
    visited.fails = False
    owned = {"owned": dict(OWNED.as_json())}
    assert await visited.says("POST", "own", FORM) == (200, owned)
    status, told = await visited.says("GET", "setup")
    assert (status, told["owned"]) == (200, owned["owned"])
    assert "name" not in told
    assert (await visited.page("GET", "/ca.pem")).body == b"PEM"
    drawing = await visited.page("GET", "/api/v1/invitation.svg")
    assert (drawing.content_type, drawing.body) == (
        "image/svg+xml",
        f"<svg>{OWNED.invitation()}".encode(),
    )
    assert await visited.says("POST", "finish") == (200, {})
    assert visited.finished == 1
    assert visited.audit.notes == [
        f"guest at {NEIGHBOUR}: unauthorized: first start: own",
        f"owner: setup code given {{'address': '{NEIGHBOUR}', 'instead': False}}",
        f"guest at {NEIGHBOUR}: conflict: first start: finish",
        f"guest at {NEIGHBOUR}: conflict: first start: own",
        f"owner: first start closed {{'address': '{NEIGHBOUR}'}}",
    ]
    assert (await visited.says("POST", "finish"))[0] == 410


async def test_a_gateway_of_a_fleet_is_made_by_its_token(visited: Visited) -> None:
    await visited.enter()
    assert (await visited.says("POST", "join", {"token": " a token\n"}))[0] == 200
    assert visited.face.owned == OWNED


async def test_what_is_not_there_is_not_there_and_files_are_only_read(visited: Visited) -> None:
    await visited.enter()
    nothing = {"error": "there is nothing here"}
    for method, path in (("GET", "own"), ("POST", "setup"), ("POST", "x"), ("GET", "code")):
        assert await visited.says(method, path) == (404, nothing)
    assert await visited.says("GET", "invitation.svg") == (404, nothing)
    for path, status in (("/", 200), ("/nothing", 404)):
        assert (await visited.page("GET", path)).status == status
    page = await visited.page("POST", "/")
    assert (page.status, page.body) == (405, b'{"error":"only GET and HEAD"}')
    assert "Strict-Transport-Security" not in page.headers
    assert "Content-Security-Policy" in page.headers
    assert not page.asks_for_password


@pytest.mark.parametrize(
    ("more", "status", "why"),
    [
        ({"host": FAR}, 403, "the request comes from another network"),
        ({"origin": "https://other.example"}, 403, "the request comes from another site"),
        ({"content_type": "text/plain"}, 415, "Content-Type: not application/json"),
        ({"x_hedgerow_csrf": "guessed"}, 403, "X-Hedgerow-CSRF: not the word of /setup"),
    ],
)
async def test_whoever_is_no_neighbour_at_the_page_itself_changes_nothing(
    more: dict[str, str], status: int, why: str, visited: Visited
) -> None:
    await visited.enter()
    found, told = await visited.says("POST", "own", FORM, **more)
    assert found == status
    assert told["error"].startswith(why)
    assert visited.face.owned is None


async def test_one_address_asks_so_much_at_once_and_others_go_on(visited: Visited) -> None:
    answers = [await visited.says("GET", "setup") for _ in range(10 * REQUESTS_AT_ONCE)]
    assert {status for status, _ in answers[:REQUESTS_AT_ONCE]} == {200}
    assert (429, {"error": "too many requests; wait a second"}) in answers
    assert (await visited.says("GET", "setup", host="192.168.1.21"))[0] == 200


async def test_a_wrong_code_and_a_second_browser_are_told_apart(visited: Visited) -> None:
    assert await visited.says("POST", "code", {"code": "wrong"}) == (
        403,
        {"error": "code: is not the one of this gateway"},
    )
    await visited.enter()
    status, told = await visited.says("POST", "code", {"code": CODE}, host="192.168.1.21")
    assert (status, told["error"]) == (
        409,
        f"somebody else is setting this gateway up, at {NEIGHBOUR}",
    )
    instead = {"code": CODE, "instead": True}
    assert (await visited.says("POST", "code", instead, host="192.168.1.21"))[0] == 200
    assert await visited.says("GET", "setup") == (200, {"stage": "form", "is_in": False})
