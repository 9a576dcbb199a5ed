"""The dashboard over loopback: what it answers to whom, and what it refuses."""

import asyncio
import contextlib
import json
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from authority import Authority
from dashboard_server import LIMIT_S, Served, Visitor, complete, dashboard, visitor
from held_timers import HeldTimers
from synthetic_tables import ALERTS, NOW, Fleet, put, rows, write_readings

from cloud_ingest.dashboard import api, browsers, connections, loss_view, sensors_view, server
from cloud_ingest.dashboard.asked import FARTHEST_MS
from cloud_ingest.dashboard.entrance import Entrance
from cloud_ingest.query.lake import LakeError
from gateway.web.web_sessions import (
    AGE_S,
    IDLE_S,
    PER_USER_MAX,
    SESSIONS_MAX,
    WebSessions,
)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tables")
    Fleet(60).write(folder)
    write_readings(folder, "gw-root", ["a", "b"], 3, 600)
    return folder


async def until(condition: Callable[[], Awaitable[Any]]) -> Any:
    async with asyncio.timeout(LIMIT_S):
        while not (found := await condition()):
            await asyncio.sleep(0.02)
        return found


async def test_every_answer_has_its_columns(tables: Path) -> None:
    async with dashboard(tables) as served, visitor(served) as someone:
        await complete(served)
        status, fleet = await someone.get("fleet")
        assert (status, fleet["count"]) == (200, 60)
        _, moments = await someone.get("moments")
        _, tree = await someone.get("tree", time_ms=moments["last_ms"])
        assert len(tree["gateway"]) == 60
        _, sensors = await someone.get("sensors")
        assert sensors["sensor"] == ["a", "b"]
        asked = {"start_ms": sensors["first_ms"][0], "end_ms": sensors["last_ms"][0] + 1}
        status, told = await someone.get(
            "sensor", gateway="gw-root", sensor="a", points=50, **asked
        )
        assert (status, told["kind"]) == (200, "parts")
        assert 25 < len(told["low"]) <= 51
        for path in ("alerts", "gaps", "me", "tables"):
            assert (await someone.get(path))[0] == 200
        _, latency = await someone.get("latency", hours=24, gateway="gw-root")
        assert set(latency["stages"]) >= {"origin-table"}
        _, slowest = await someone.get("slowest", hours=24)
        assert len(slowest["gateway"]) == 20
        _, one = await someone.get("gateway", name="gw-root")
        assert one["parent"] is None


WRONG_QUESTIONS: list[tuple[str, dict[str, Any], int, str]] = [
    ("gateway", {}, 400, "name"),
    ("gateway", {"name": "nobody"}, 404, "nobody"),
    ("tree", {"time_ms": "soon"}, 400, "time_ms"),
    ("tree", {"time_ms": "9" * 30}, 400, "time_ms"),
    ("sensor", {"gateway": "gw-root", "sensor": "z"}, 404, "z"),
    ("sensor", {"gateway": "gw-root", "sensor": "a", "start_ms": "1"}, 400, "end_ms"),
    (
        "sensor",
        {"gateway": "gw-root", "sensor": "a", "start_ms": 9, "end_ms": 8, "points": 9},
        400,
        "end_ms",
    ),
    (
        "sensor",
        {"gateway": "gw-root", "sensor": "a", "start_ms": 1, "end_ms": 8, "points": 99999},
        400,
        "points",
    ),
    ("latency", {"hours": "1e9"}, 400, "hours"),
    ("nothing", {}, 404, "Not Found"),
]


async def test_a_wrong_question_is_told_which_field_is_wrong(tables: Path) -> None:
    async with dashboard(tables) as served, visitor(served) as someone:
        await complete(served)
        for path, query, status, named in WRONG_QUESTIONS:
            found, told = await someone.get(path, **query)
            assert found == status, (path, query)
            assert named in told["error"], (path, query)


async def test_what_has_not_changed_is_not_sent_again(tables: Path) -> None:
    async with dashboard(tables) as served, visitor(served) as someone:
        await complete(served)
        async with someone.session.get(f"{served.base}/api/fleet") as first:
            tag = first.headers["ETag"]
        asked = {"If-None-Match": tag}
        async with someone.session.get(f"{served.base}/api/fleet", headers=asked) as again:
            assert again.status == 304


async def test_the_page_has_one_script_and_a_file_that_a_browser_has_is_not_sent_again(
    tables: Path,
) -> None:
    async with dashboard(tables) as served, visitor(served) as someone:
        async with someone.session.get(f"{served.base}/") as answer:
            page = await answer.text()
        scripts = re.findall(r'<script src="([^"]+)"', page)
        assert scripts == ["theme.js", "vendor/uPlot.iife.min.js", "dashboard.js"]
        for path in (*scripts, "style.css", ""):
            async with someone.session.get(f"{served.base}/{path}") as answer:
                assert answer.status == 200
                tag = answer.headers["ETag"]
                assert "no-cache" in answer.headers["Cache-Control"]
            known = {"If-None-Match": tag}
            async with someone.session.get(f"{served.base}/{path}", headers=known) as answer:
                assert (answer.status, await answer.read()) == (304, b"")
                assert "Content-Security-Policy" in answer.headers


async def test_every_answer_forbids_scripts_of_others_and_frames(tables: Path) -> None:
    async with dashboard(tables) as served, visitor(served) as someone:
        for path in ("/", "/app.js", "/style.css", "/api/me", "/api/fleet", "/nowhere"):
            async with someone.session.get(f"{served.base}{path}") as answer:
                policy = answer.headers["Content-Security-Policy"]
                assert "default-src 'none'" in policy
                assert "unsafe" not in policy
                assert "frame-ancestors 'none'" in policy
                assert answer.headers["X-Content-Type-Options"] == "nosniff"


async def test_without_users_another_name_of_this_machine_reads_nothing(tables: Path) -> None:
    async with dashboard(tables) as served, visitor(served) as someone:
        asked = {"Host": "rebound.example:8080"}
        async with someone.session.get(f"{served.base}/api/fleet", headers=asked) as answer:
            assert answer.status == 403


async def test_nothing_is_read_before_a_log_in_nor_after_a_log_out(tables: Path) -> None:
    async with dashboard(tables, has_users=True) as served, visitor(served) as rita:
        for path in ("fleet", "alerts", "events", "tree?time_ms=1", "gateway?name=gw-root"):
            async with rita.session.get(f"{served.base}/api/{path}") as answer:
                assert answer.status == 401
        assert await rita.log_in("rita", "wrong") == 401
        assert await rita.log_in("nobody") == 401
        assert await rita.log_in("nina") == 403
        assert await rita.log_in("rita") == 200
        cookie = next(iter(rita.session.cookie_jar))
        assert (cookie["httponly"], cookie["samesite"]) == (True, "Strict")
        assert (await rita.get("fleet"))[0] == 200
        assert (await rita.get("me"))[1] == {
            "user": "rita",
            "is_in": True,
            "asks": True,
            "may_acknowledge": False,
        }
        kept = {"Cookie": f"{cookie.key}={cookie.value}"}
        assert (await rita.post("logout", {}))[0] == 200
        async with rita.session.get(f"{served.base}/api/fleet", headers=kept) as answer:
            assert answer.status == 401


async def test_who_guesses_passwords_has_to_wait(tables: Path) -> None:
    async with dashboard(tables, has_users=True) as served, visitor(served) as someone:
        found = [await someone.log_in("olga", f"guess {number}") for number in range(11)]
        assert found == [401] * 10 + [429]
        assert await someone.log_in("olga") == 429


@pytest.mark.drawn(3)
@pytest.mark.parametrize(
    "body",
    [
        b"[" * 10_000,
        b'{"user": "olga", "password": "\\ud800"}',
        b'{"user": "\\udc00", "password": "x"}',
        b'{"user": "olga"}',
        b'{"user": "olga", "password": 1}',
        b"[]",
        b"\xff",
        b"",
        b'{"user": "olga", "password": ' + b"1" * 5_000 + b"}",
    ],
)
async def test_a_log_in_that_says_nothing_is_a_failure_too(tables: Path, body: bytes) -> None:
    async with dashboard(tables, has_users=True) as served, visitor(served) as someone:
        headers = {"Content-Type": "application/json"}
        for _ in range(10):
            asked = someone.session.post(f"{served.base}/api/login", data=body, headers=headers)
            async with asked as answer:
                assert answer.status == 400
                assert (await answer.json())["error"]
        assert await someone.log_in("olga") == 429


HALF = b"GET /api/me HTTP/1.1\r\nHost: localhost\r\n"


async def half_requests(served: Served, hosts: int) -> list[asyncio.StreamWriter]:
    """More connections than there is room for, of which none asks anything."""
    made = []
    for number in range(connections.CONNECTIONS_MAX + 8):
        at = (f"127.0.1.{1 + number % hosts}", 0)
        _, writer = await asyncio.open_connection("127.0.0.1", served.port, local_addr=at)
        writer.write(HALF)
        made.append(writer)
    return made


@pytest.mark.parametrize("hosts", [1, 16])
async def test_half_requests_keep_nobody_from_the_page(
    tables: Path, hosts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "CONNECTIONS_MAX", 40)
    monkeypatch.setattr(connections, "CONNECTIONS_PER_ADDRESS", 8)
    async with dashboard(tables, has_users=True) as served, visitor(served) as olga:
        assert await olga.log_in("olga") == 200
        listening = olga.session.get(f"{served.base}/api/events")
        async with listening as events:
            writers = await half_requests(served, hosts)
            async with visitor(served) as new:
                assert await new.log_in("rita") == 200
            assert (await olga.get("me"))[1]["user"] == "olga"
            assert await events.content.readline() == b"retry: 3000\n"
            for writer in writers:
                writer.close()


@asynccontextmanager
async def over_tls(folder: Path) -> AsyncIterator[tuple[Served, Visitor]]:
    """A dashboard over HTTPS, and one who trusts it."""
    authority = Authority(folder)
    own = authority.issue("dashboard", is_server=True)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(own.certificate, own.key)
    async with dashboard(folder / "tables", has_users=True, tls=context) as served:
        trusts = aiohttp.TCPConnector(ssl=authority.client_context(None))
        async with aiohttp.ClientSession(connector=trusts) as session:
            yield served, Visitor(session, served.base.replace("127.0.0.1", "localhost"))


@pytest.mark.parametrize("begun", [b"", b"\x16\x03\x01\x02\x00\x01"])
async def test_who_begins_no_handshake_or_half_of_one_keeps_nobody_from_the_page(
    tmp_path: Path, begun: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "CONNECTIONS_MAX", 12)
    monkeypatch.setattr(connections, "CONNECTIONS_PER_ADDRESS", 8)
    async with over_tls(tmp_path) as (served, olga):
        silent = []
        for _ in range(20):
            silent.append(await asyncio.open_connection("127.0.0.1", served.port))
            silent[-1][1].write(begun)
        for reader, _ in silent[:12]:
            with contextlib.suppress(ConnectionResetError):
                async with asyncio.timeout(LIMIT_S):
                    assert await reader.read() == b""
        assert await olga.log_in("olga") == 200
        for _ in range(3):  # over the connection of before
            assert (await olga.get("me"))[0] == 200
        for _, writer in silent:
            writer.close()


async def test_who_does_not_end_a_handshake_is_closed_in_time_and_who_has_asked_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "HEAD_S", 60.5)
    timers = HeldTimers(monkeypatch, connections.HEAD_S)
    async with over_tls(tmp_path) as (served, olga), AsyncExitStack() as stack:
        assert await olga.log_in("olga") == 200
        listening = olga.session.get(f"https://localhost:{served.port}/api/events")
        events = await stack.enter_async_context(listening)
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        async with asyncio.timeout(LIMIT_S):
            while not timers.count:
                await asyncio.sleep(0.01)
        timers.run_out()
        with contextlib.suppress(ConnectionResetError):
            async with asyncio.timeout(LIMIT_S):
                assert await reader.read() == b""
        writer.close()
        assert await events.content.readline() == b"retry: 3000\n"
        assert not events.content.at_eof()
        assert (await olga.get("me"))[1]["user"] == "olga"


async def test_half_a_request_and_half_a_body_are_closed_in_time(
    tables: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "HEAD_S", 0.1)
    monkeypatch.setattr(api, "BODY_S", 0.1)
    async with dashboard(tables, has_users=True) as served:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(HALF)
        with contextlib.suppress(ConnectionResetError):
            assert await reader.read() == b""
        writer.close()
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(HALF.replace(b"GET /api/me", b"POST /api/login"))
        writer.write(b"Content-Type: application/json\r\nContent-Length: 9\r\n\r\n{")
        assert (await reader.readline()).startswith(b"HTTP/1.1 408 ")
        writer.close()


async def acknowledged(someone: Visitor, alert: str) -> Any:
    _, told = await someone.get("alerts")
    at = told["alert"].index(alert)
    return told["acknowledged_by"][at] and (
        told["acknowledged_by"][at],
        told["acknowledged_note"][at],
    )


async def test_an_operator_acknowledges_and_a_reader_does_not(tmp_path: Path) -> None:
    Fleet(60).write(tmp_path)
    async with dashboard(tmp_path, has_users=True) as served:
        await complete(served)
        async with visitor(served) as rita, visitor(served) as olga:
            await rita.log_in("rita")
            await olga.log_in("olga")
            alert = (await rita.get("alerts"))[1]["alert"][0]
            said = {"alert": alert, "note": " <b>fan</b> replaced "}
            assert (await rita.post("acknowledge", said))[0] == 403
            assert await acknowledged(rita, alert) is None
            assert (await olga.post("acknowledge", said))[0] == 200
            found = await until(lambda: acknowledged(rita, alert))
            assert found == ("console:olga", "<b>fan</b> replaced")
            for wrong, status in (
                ({"alert": "no such", "note": ""}, 404),
                ({"alert": alert, "note": "x" * 501}, 400),
                ({"alert": alert, "note": "\x1b[31m"}, 400),
                ({"alert": alert}, 400),
                ([], 400),
            ):
                assert (await olga.post("acknowledge", wrong))[0] == status


async def test_who_may_acknowledge_in_one_domain_may_not_in_another_nor_for_the_ingest(
    tmp_path: Path,
) -> None:
    Fleet(60).write(tmp_path)
    of_job = {"alert": "behind", "kind": "behind", "gateway": "", "opened": NOW}
    put(tmp_path, "alerts", rows(ALERTS, [of_job]))
    async with (
        dashboard(tmp_path, has_users=True) as served,
        visitor(served) as otto,
        visitor(served) as olga,
    ):
        await complete(served)
        await otto.log_in("otto")
        await olga.log_in("olga")
        assert (await olga.post("acknowledge", {"alert": "behind", "note": ""}))[0] == 200
        _, told = await otto.get("alerts")
        found = {}
        for alert, gateway in zip(told["alert"], told["gateway"], strict=True):
            status, _ = await otto.post("acknowledge", {"alert": alert, "note": ""})
            found[gateway.partition("-")[0]] = status
        assert found[""] == 403
        assert found.pop("harbour") == 200
        assert set(found.values()) == {403}


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Content-Type": "text/plain"},
    ],
)
async def test_what_another_site_has_a_browser_send_changes_nothing(
    tmp_path: Path, headers: dict[str, str]
) -> None:
    Fleet(60).write(tmp_path)
    async with dashboard(tmp_path, has_users=True) as served, visitor(served) as olga:
        await complete(served)
        await olga.log_in("olga")
        alert = (await olga.get("alerts"))[1]["alert"][0]
        status, _ = await olga.post("acknowledge", {"alert": alert, "note": ""}, **headers)
        assert status in (403, 415)
        assert not (tmp_path / "acknowledgements").exists()


async def test_a_browser_is_told_which_tables_changed(tmp_path: Path) -> None:
    fleet = Fleet(5)
    fleet.write(tmp_path)
    async with dashboard(tmp_path) as served, visitor(served) as someone:
        await complete(served)
        async with someone.session.get(f"{served.base}/api/events") as events:
            assert events.content_type == "text/event-stream"
            assert await events.content.readline() == b"retry: 3000\n"
            put(tmp_path, "gaps", fleet.gaps(), "overwrite")
            told: set[str] = set()
            async with asyncio.timeout(LIMIT_S):
                while "gaps" not in told:
                    line = await events.content.readline()
                    if line.startswith(b"data: "):
                        told |= set(json.loads(line[6:]))


async def test_there_are_only_so_many_that_are_told(
    tables: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(browsers, "PER_VISITOR_MAX", 2)
    async with dashboard(tables) as served, visitor(served) as someone:
        url = f"{served.base}/api/events"
        async with (
            someone.session.get(url),
            someone.session.get(url),
            someone.session.get(url) as third,
        ):
            assert third.status == 503
        assert len(served.server.browsers) <= 2


async def test_a_body_that_is_too_large_is_refused(tables: Path) -> None:
    async with dashboard(tables, has_users=True) as served, visitor(served) as someone:
        status, _ = await someone.post("login", {"user": "olga", "password": "x" * 40_000})
        assert status == 413


def test_sessions_end_when_they_are_old_or_unused_and_are_only_so_many() -> None:
    made = iter(range(10_000))
    sessions = WebSessions(lambda: f"token {next(made)}")
    first = sessions.begin("anna", 0.0)
    assert sessions.user(first, IDLE_S) == "anna"
    assert sessions.user(first, 2 * IDLE_S + 1) is None
    busy = sessions.begin("anna", 0.0)
    for hours in range(int(AGE_S / 3600)):
        assert sessions.user(busy, hours * 3600.0) == "anna"
    assert sessions.user(busy, AGE_S + 1) is None
    tokens = [sessions.begin("anna", 1.0 + at) for at in range(PER_USER_MAX + 1)]
    assert sessions.user(tokens[0], 20.0) is None
    assert sessions.user(tokens[1], 20.0) == "anna"
    for number in range(SESSIONS_MAX + 10):
        sessions.begin(f"user {number}", 20.0)
    assert len(sessions) == SESSIONS_MAX
    assert sessions.user("", 20.0) is sessions.user("x" * 10_000, 20.0) is None


async def test_a_slow_browser_costs_no_more_than_the_names_of_the_tables() -> None:
    all_of_them = browsers.ListeningBrowsers()
    slow = all_of_them.come("x", lambda: False)
    assert slow is not None
    for _ in range(1000):
        all_of_them.tell(("gateways", "gaps"))
    assert await slow.next(LIMIT_S) == ["gaps", "gateways"]
    assert await slow.next(0.01) == []


async def test_two_sensors_are_not_told_as_one(tables: Path) -> None:
    async with dashboard(tables) as served, visitor(served) as someone:
        await complete(served)
        asked = [("gateway", "gw-root"), ("sensor", "a"), ("gateway", "gw-root"), ("sensor", "b")]
        more = [("start_ms", "1"), ("end_ms", "9"), ("points", "9")]
        async with someone.session.get(
            f"{served.base}/api/sensor", params=[*asked, *more]
        ) as answer:
            why = (await answer.json())["error"]
        assert answer.status == 400
        assert why == "sensor: one alone; ask /api/together for more"


async def test_who_may_not_see_the_dashboard_is_told_so_and_a_lake_that_fails_is_503(
    tables: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with dashboard(tables, has_users=True) as served, visitor(served) as someone:
        await complete(served)
        assert await someone.get("fleet") == (401, {"error": "log in first"})
        assert await someone.log_in("nina") == 403
        assert await someone.log_in("rita") == 200
        with monkeypatch.context() as patch:  # the policy is another one since
            patch.setattr(Entrance, "may_read", lambda self, visitor: False)
            told = await someone.get("fleet")
        why = "the policy does not let you see the dashboard"
        assert told == (403, {"error": why})

        def fail(*_: object) -> None:
            raise LakeError("latency", "the disk is gone")

        with monkeypatch.context() as patch:
            patch.setattr(loss_view, "latency", fail)
            told = await someone.get("latency", hours=24)
        assert told == (503, {"error": "latency: the disk is gone"})


async def test_a_number_in_a_question_is_taken_up_to_its_bounds(tables: Path) -> None:
    bounds = [
        ("sensor", "points", 2, sensors_view.POINTS_MAX),
        ("together", "points", 2, sensors_view.POINTS_MAX),
        ("history", "hours", 1, api.HOURS_MAX),
        ("latency", "hours", 1, api.HOURS_MAX),
        ("slowest", "hours", 1, api.HOURS_MAX),
        ("tree", "time_ms", 0, FARTHEST_MS),
    ]
    span = {"start_ms": 0, "end_ms": int(NOW.timestamp() * 1_000)}
    asked = {"gateway": "gw-root", "sensor": "a", **span}
    async with dashboard(tables) as served, visitor(served) as someone:
        await complete(served)
        for path, name, least, most in bounds:
            for number in (least, most):
                assert (await someone.get(path, **asked, **{name: number}))[0] == 200
            for number in (least - 1, most + 1):
                status, told = await someone.get(path, **asked, **{name: number})
                why = f"{name}: '{number}' is not {least} to {most}"
                assert (status, told["error"]) == (400, why)


async def test_a_gateway_without_a_row_is_named(tables: Path) -> None:
    async with dashboard(tables) as served, visitor(served) as someone:
        await complete(served)
        status, told = await someone.get("gateway", name="gw-nobody")
        assert (status, told["error"]) == (404, "name: there is no gateway 'gw-nobody'")
        status, told = await someone.get("gateway", name="gw-root")
        assert (status, told["gateway"]) == (200, "gw-root")
        assert (await someone.get("gateway"))[0] == 400


async def test_tables_are_looked_at_without_a_pause_until_all_is_told_and_then_with_one(
    tables: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pause_s, paused, sleep = 1_234.5, list[bool](), asyncio.sleep
    monkeypatch.setattr(server, "FOLLOW_S", pause_s)
    async with dashboard(tables) as served:

        async def pause(delay_s: float) -> None:
            if delay_s == pause_s:
                paused.append(served.models.is_complete)
            await sleep(0 if delay_s == pause_s else delay_s)

        monkeypatch.setattr(asyncio, "sleep", pause)
        await complete(served)
        async with asyncio.timeout(LIMIT_S):
            while not paused:
                await pause(0.001)
    assert all(paused)
