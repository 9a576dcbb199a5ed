"""Whatever is asked of the page is not done for who may no more by the time that it would be.

Goal: no change that the page or its API can make is made for somebody whose right, or whose log-in,
ends between the request and its effect. Each request that is no GET has a row here. Its answer is
stopped where it waits for the first time, what the row names is taken away, and it goes on. What
never waits has no such moment.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import io
import os
import threading
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Iterator,
    Mapping,
)
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import pytest
from argon2 import PasswordHasher
from enrolled_gateway import Enrolled, enrolled_gateway
from mqtt_peer import Peer
from page_gateway import LIMIT_S, POLICY, Looker, PageGateway, looker, page_gateway

from gateway.broker.access import password_lines
from gateway.process.access import files as access_files
from gateway.process.configuration import config
from gateway.process.console.pages import HttpRequest, Page
from gateway.process.page import configuration_api, opening
from gateway.process.page.face import PageFace
from gateway.process.page.routes import ROUTES
from gateway.sensors.trying import SensorTrials
from light_dataclasses import dataclass
from resource_directory.link_format import WebLink
from tree_handler.members.member import MemberRecord

NEW: Final = "correct horse battery"
TWO_ADMINS: Final = POLICY.replace('"console:nina" = []', '"console:nina" = ["admin"]')
NO_PAGE: Final = (
    TWO_ADMINS
    + """[[rules]]
who = ["console:anna"]
deny = ["console /page"]
"""
)
NO_RIGHT: Final = (
    TWO_ADMINS
    + """[[rules]]
who = ["console:anna"]
deny = ["write /#", "publish #", "drain", "membership", "clients", "disconnect", "configure"]
"""
)
LOGGED_OUT, OFF_THE_PAGE, WITHOUT_RIGHT = "logged out", "off the page", "without the right"
POLICIES: Final = {OFF_THE_PAGE: NO_PAGE, WITHOUT_RIGHT: NO_RIGHT}
ALL: Final = (LOGGED_OUT, OFF_THE_PAGE, WITHOUT_RIGHT)
SWITCH: Final = {"type": "switch", "name": "pump"}


class Stepped:
    """An answer that is stopped where it waits for the first time.

    Args:
        answer: the whole of it.
        between: is called then.

    """

    def __init__(self, answer: Coroutine[Any, Any, Page], between: Callable[[], None]) -> None:
        self._answer = answer
        self._between = between

    def __await__(self) -> Generator[Any, Any, Page]:
        """Go on behind it as if nothing had been."""
        step: Callable[[], Any] = partial(self._answer.send, None)
        is_first = True
        while True:
            try:
                awaited = step()
            except StopIteration as done:
                page: Page = done.value
                return page
            if is_first:
                self._between()
            is_first = False
            try:
                step = partial(self._answer.send, (yield awaited))
            except BaseException as thrown:
                step = partial(self._answer.throw, thrown)


class World:
    """A gateway, two administrators of it, and what becomes of one of them.

    Args:
        gateway: it.
        enrolled: its certificates.

    Attributes:
        anna: asks, and is let down.
        nina: looks.
        location: of a registration.
        held: a client of the broker.
        tried: tables of sensors that were tried.
        what: is taken away from her between her next request and its answer; empty for nothing.
        has_fallen: it was.

    """

    anna: Looker
    nina: Looker

    def __init__(self, gateway: PageGateway, enrolled: Enrolled) -> None:
        self.gateway = gateway
        self.enrolled = enrolled
        self.location = ""
        self.held: Peer | None = None
        self.tried: list[Any] = []
        self.what = ""
        self.has_fallen = False

    @contextmanager
    def watched(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
        """Give the files of the gateway that its event loop waits for meanwhile.

        The audit trail is none of them: its remarks wait for no disk.
        """
        found: list[str] = []
        folders = str(self.gateway.folder), str(self.enrolled.folder)

        def recorded(real: Callable[..., Any]) -> Callable[..., Any]:
            def record(file: Any, *given: Any, **more: Any) -> Any:
                is_here = threading.current_thread() is threading.main_thread()
                if is_here and str(file).startswith(folders) and "audit.jsonl" not in str(file):
                    found.append(str(file))
                return real(file, *given, **more)

            return record

        with monkeypatch.context() as patched:
            for module, name in ((io, "open"), (os, "open"), (os, "access")):
                patched.setattr(module, name, recorded(getattr(module, name)))
            yield found

    def begin_to(self, what: str) -> None:
        """Take something away from her when she asks."""
        self.what, self.has_fallen = what, False

    def take_away(self, face: PageFace, request: HttpRequest, host: str) -> None:
        """Take it away."""
        self.has_fallen, what, self.what = True, self.what, ""
        if what != LOGGED_OUT:
            self._go_by(POLICIES[what])
            return
        log_out = replace(request, method="POST", path="/api/v1/logout", query="", body=b"{}")
        answer = face.answer(log_out, host)
        assert isinstance(answer, Coroutine)
        with pytest.raises(StopIteration):  # it waits for nothing
            answer.send(None)

    async def restore(self) -> None:
        """Give her everything back."""
        self._go_by(TWO_ADMINS)
        assert await self.anna.log_in("anna") == 200

    def _go_by(self, policy: str) -> None:
        (self.gateway.folder / "access.toml").write_text(policy)
        settings = config.load(self.gateway.folder / "gateway.toml", config.GatewaySettings)
        parts = self.gateway.process.parts
        parts.access.follow(settings, access_files.read(settings, parts.proof.revocations.lists))
        (self.gateway.folder / "access.toml").write_text(TWO_ADMINS)

    async def told(self, path: str, **query: Any) -> Any:
        """Return what the other one is told."""
        status, told = await self.nina.get(path, **query)
        assert status == 200, told
        return told


Look = Callable[[World], Awaitable[Any]]
Prepare = Callable[[World], Awaitable[None]]
Body = Callable[[World], Any]


@dataclass(frozen=True, slots=True)
class Row:
    """A request that may change something.

    Attributes:
        path: behind the API's; ``{location}`` stands for the registration's.
        body: makes what it says; None where it says nothing.
        before: has what it changes be there.
        seen: shows what it changes; None where that is nothing but the answer.
        ends: what keeps its visitor from it.

    """

    path: str
    body: Body | None = None
    before: Prepare | None = None
    seen: Look | None = None
    ends: tuple[str, ...] = ALL


def says(**fields: Any) -> Body:
    return lambda _world: fields


# -- what there is to change -----------------------------------------------------------------------


async def meter(world: World) -> None:
    world.held = await world.gateway.client("meter")


async def lost_member(world: World) -> None:
    record = MemberRecord("gw-lost", 1, 1, "campus", "south", "10.0.0.9", 1883)
    assert world.gateway.process.parts.members.known.update(record)


async def registration(world: World) -> None:
    site = world.gateway.process.parts.site
    now, links = site.directory.now(), [WebLink("/t", ())]
    made = site.registry.register("meter", links, now, base="coap://10.0.0.7", owner="psk:meter")
    world.location = made.location.removeprefix("/rd/")


async def pump(world: World) -> None:
    assert (await world.nina.ask("POST", "sensors", SWITCH))[0] == 200


async def device_key(world: World) -> None:
    assert (await world.nina.ask("POST", "device-keys", {"identity": "meter"}))[0] == 200


async def key_request(world: World) -> None:
    assert (await world.nina.ask("POST", "keys/request", {}))[0] == 200


def upload(world: World) -> Any:
    """Another key of the gateway, and its certificate, as a file of PEM."""
    certificate = world.enrolled.authority.issue("gw", roles=("gateway",), kind="p256")
    key = certificate.with_name("gw.key.pem")
    data = base64.b64encode(key.read_bytes() + certificate.read_bytes()).decode()
    return {"section": "mqtt", "part": "own", "data": data}


def hello(world: World) -> Any:
    digest = hashlib.sha256((world.gateway.folder / "gateway.toml").read_bytes()).hexdigest()
    return {"set": ["tree.hello_s=1.5"], "if_unchanged": digest}


# -- what is seen of it ----------------------------------------------------------------------------


async def files(world: World) -> Any:
    own = [*world.gateway.folder.glob("*.toml*"), world.gateway.folder / "passwords"]
    return {path.name: path.read_bytes() for path in own} | world.enrolled.bytes


async def tried(world: World) -> Any:
    return len(world.tried)


async def clients(world: World) -> Any:
    return [one["id"] for one in (await world.told("clients"))["clients"] if one["is_connected"]]


async def members(world: World) -> Any:
    return [one["id"] for one in (await world.told("members"))["members"]]


async def registrations(world: World) -> Any:
    return [one["href"] for one in (await world.told("directory/endpoints"))["links"]]


async def device_keys(world: World) -> Any:
    return (await world.told("device-keys"))["devices"]


async def silences(world: World) -> Any:
    return (await world.told("alerts"))["silences"]


async def sensor_tables(world: World) -> Any:
    names = [one["name"] for one in (await world.told("sensors"))["sensors"]]
    return names, await world.nina.get("sensors/pump/table")


async def valve(world: World) -> Any:
    rows = (await world.told("sensors", hour=0))["sensors"]
    return next(one["values"] for one in rows if one["name"] == "valve")[0]["value"]


async def retained(world: World) -> Any:
    return (await world.told("retained", filter="bell/#"))["messages"]


ROWS: Final[Mapping[str, Row]] = {
    "log_in": Row("login", says(user="anna", password="anna"), ends=(OFF_THE_PAGE,)),
    "make_token": Row("tokens", says(user="anna", password="anna"), ends=(OFF_THE_PAGE,)),
    "change_own_password": Row(
        "me/password", says(old="anna", new=NEW), seen=files, ends=(LOGGED_OUT, OFF_THE_PAGE)
    ),
    "log_out": Row("logout", says()),
    "forget_member": Row("members/gw-lost", before=lost_member, seen=members),
    "disconnect": Row("clients/meter/disconnect", says(), meter, clients),
    "publish": Row("messages", says(topic="bell", payload="ding", retain=True), seen=retained),
    "set_sensor": Row("sensors/valve", says(value="1"), seen=valve),
    "try_sensor": Row("sensor-trials", says(type="switch"), seen=tried),
    "add_sensor": Row("sensors", says(**SWITCH), seen=sensor_tables),
    "change_sensor": Row(
        "sensors/pump/table",
        says(type="switch", name="pump", options={"retain": True}),
        pump,
        sensor_tables,
    ),
    "remove_sensor": Row("sensors/pump", before=pump, seen=sensor_tables),
    "remove_registration": Row(
        "directory/registrations/{location}", before=registration, seen=registrations
    ),
    "make_device_key": Row("device-keys", says(identity="meter"), seen=device_keys),
    "revoke_device_key": Row("device-keys/meter", before=device_key, seen=device_keys),
    "order": Row("alerts", says(do="silence", for_s=60, match={"rule": "disk*"}), seen=silences),
    "add_user": Row("users", says(user="paul"), seen=files),
    "set_password": Row("users/olga/password", says(password=NEW), seen=files),
    "remove_user": Row("users/olga", seen=files),
    "check_configuration": Row("configuration/checks", says(set=["tree.hello_s=1.5"])),
    "change_configuration": Row("configuration", hello, seen=files),
    "check_keys": Row("keys/checks", upload),
    "import_keys": Row("keys", upload, seen=files),
    "make_key_request": Row("keys/request", says(), seen=files),
    "forget_key_request": Row("keys/request", before=key_request, seen=files),
    "renew_certificate": Row("keys/renew", says(), seen=files),
}
CHANGES: Final = {route.operation: route for route in ROUTES if route.method != "GET"}


@pytest.fixture
async def world(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, heard: list[int]
) -> AsyncIterator[World]:
    """One whose page stops an answer that says so."""
    monkeypatch.setattr(password_lines, "PasswordHasher", partial(PasswordHasher, 1, 64, 1))
    monkeypatch.setattr(configuration_api, "ANSWERED_S", 3600.0)
    made: World

    class StoppedFace(PageFace):
        def answer(self, request: HttpRequest, host: str) -> Page | Awaitable[Page]:
            answer = super().answer(request, host)
            if not made.what or not isinstance(answer, Coroutine):
                return answer
            return Stepped(answer, partial(made.take_away, self, request, host))

    real = SensorTrials.tried

    def counted(self: SensorTrials, *given: Any, **more: Any) -> Any:
        made.tried.append(given)
        return real(self, *given, **more)

    monkeypatch.setattr(SensorTrials, "tried", counted)
    monkeypatch.setattr(opening, "PageFace", StoppedFace)
    psk = tmp_path / "psk"
    psk.touch(mode=0o600)
    async with (
        enrolled_gateway(tmp_path) as enrolled,
        page_gateway(
            tmp_path / "gateway",
            policy=TWO_ADMINS,
            mqtt=enrolled.mqtt,
            coap=f'psk_file = "{psk}"\ndtls_port = 0\n',
            more=f"{enrolled.keys}[alerts]\nenabled = true\n",
        ) as gateway,
    ):
        made = World(gateway, enrolled)
        async with looker(gateway, "anna") as made.anna, looker(gateway, "nina") as made.nina:
            yield made


def test_each_request_that_is_no_look_has_a_row() -> None:
    assert set(ROWS) == set(CHANGES)


@pytest.mark.parametrize("operation", ROWS)
async def test_nothing_is_done_for_who_may_no_more_when_it_would_be(
    world: World, operation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    row, method = ROWS[operation], CHANGES[operation].method
    if row.before is not None:
        await row.before(world)

    async def asked(body: Any) -> int:
        path = row.path.format(location=world.location)
        async with asyncio.timeout(LIMIT_S):
            return (await world.anna.ask(method, path, body))[0]

    def said() -> Any:
        return None if row.body is None else row.body(world)

    before = None if row.seen is None else await row.seen(world)
    for what in row.ends:
        world.begin_to(what)
        status = await asked(said())
        if not world.has_fallen:  # it waits for nothing: there is no moment between
            assert status == HTTPStatus.OK
            return
        assert status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN), what
        assert row.seen is None or await row.seen(world) == before, what
        await world.restore()
    body = said()
    with world.watched(monkeypatch) as files_waited_for:
        assert await asked(body) == HTTPStatus.OK
    assert not files_waited_for
    if row.seen is not None:
        async with asyncio.timeout(LIMIT_S):
            while await row.seen(world) == before:
                await asyncio.sleep(0.02)


async def test_no_look_has_the_event_loop_wait_for_a_file(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await meter(world)
    await key_request(world)
    names = {"id": "meter", "type": "switch", "name": "valve"}
    asks = {"filter": "#", "action": "PUT /sensors/valve"}
    seen = {}
    for route in ROUTES:
        if route.method == "GET":
            query = {field.name: asks[field.name] for field in route.query if field.is_needed}
            with world.watched(monkeypatch) as files_waited_for:
                status, _ = await world.anna.get(route.path[1:].format(**names), **query)
            assert not files_waited_for, route.operation
            seen[route.operation] = status
    assert {name for name, status in seen.items() if status != HTTPStatus.OK} == {"sensor_table"}
    with world.watched(monkeypatch) as files_waited_for:
        async with world.anna.session.get(f"{world.anna.base}/ca.pem") as answer:
            assert answer.status == HTTPStatus.OK
    assert not files_waited_for
