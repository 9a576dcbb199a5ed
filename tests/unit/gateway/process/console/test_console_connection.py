"""One connection of the console: its deadlines, its answers, and when it makes room for others."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from types import SimpleNamespace
from typing import Any

import pytest
from loop_turns import turns
from memory_transport import MemoryTransport

from gateway.process.console import server
from gateway.process.console.exchange import ExchangeRules
from gateway.process.console.pages import HttpRequest, Page, plain
from gateway.process.console.server import Console
from gateway.trust.tls import layer

UP = Page("text/plain", b"up")
GET = b"GET /x HTTP/1.1\r\nHost: localhost\r\n\r\n"
METRICS = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"


class VisitorTransport(MemoryTransport):
    """The transport of one visitor, which notes what is asked of it."""

    def __init__(self, host: str) -> None:
        super().__init__()
        self.told: list[str] = []
        self.limits: list[int | None] = []
        self._host = host

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return (self._host, 1) if name == "peername" else default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self.limits.append(high)

    def pause_reading(self) -> None:
        self.told.append("pause")

    def resume_reading(self) -> None:
        self.told.append("resume")

    def abort(self) -> None:
        self.told.append("abort")
        super().abort()

    @property
    def answers(self) -> list[str]:
        """The status lines of all that was answered."""
        return re.findall(r"HTTP/1\.1 [^\r]*", self.written.decode())


class BrowserFace:
    """A page for browsers, whose answers are the test's."""

    rules = ExchangeRules(("GET", "POST"), 100, goes_on=True)

    def __init__(self) -> None:
        self.page: Page | Awaitable[Page] = UP
        self.known = ""
        self.asked: list[tuple[str, str]] = []

    def answer(self, request: HttpRequest, host: str) -> Page | Awaitable[Page]:
        self.asked.append((request.path, host))
        return self.page

    def knows(self, request: HttpRequest) -> str:
        return self.known


class Timers:
    """The clock and timers of the loop."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.now_s = 100.0
        self.set: list[tuple[float, Callable[[], object], SimpleNamespace]] = []
        loop = asyncio.get_running_loop()
        patch.setattr(loop, "call_later", self._later)
        patch.setattr(loop, "time", lambda: self.now_s)

    def _later(self, delay: float, callback: Callable[[], object], *_: Any, **__: Any) -> Any:
        timer = SimpleNamespace(is_over=False)
        timer.cancel = lambda: setattr(timer, "is_over", True)
        self.set.append((delay, callback, timer))
        return timer

    @property
    def due(self) -> list[float]:
        """The delays of those that are to run out."""
        return [delay for delay, _, timer in self.set if not timer.is_over]

    def run_out(self) -> None:
        for _, callback, timer in self.set:
            if not timer.is_over:
                timer.is_over = True
                callback()


class Visited:
    """A console without a socket, and those that visit it."""

    def __init__(self, patch: pytest.MonkeyPatch, face: BrowserFace | None = None) -> None:
        self.face = face
        self.console = Console({"/metrics": lambda: UP}, web=face)
        self._patch = patch
        self._accepted: Callable[[], Any] = lambda: None

    async def start(self) -> Timers:
        async def listen(accepted: Callable[[], Any], *_: Any, **__: Any) -> Any:
            self._accepted = accepted
            socket = SimpleNamespace(getsockname=lambda: ("127.0.0.1", 7))
            return SimpleNamespace(sockets=[socket], close=lambda: None)

        with self._patch.context() as patch:
            patch.setattr(server.event_loop, "listen", listen)
            assert await self.console.start("127.0.0.1", 0) == 7
        return Timers(self._patch)

    def accepted(self) -> Any:
        """Return what a new connection is given to."""
        return self._accepted()

    def comes(self, host: str = "127.0.0.1") -> tuple[Any, VisitorTransport]:
        """Return a new connection, and its transport."""
        connection, transport = self._accepted(), VisitorTransport(host)
        connection.connection_made(transport)
        return connection, transport


async def test_a_visitor_without_a_page_has_3_s_to_ask_and_5_s_in_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    visited = Visited(monkeypatch)
    timers = await visited.start()
    connection, transport = visited.comes()
    assert (timers.due, transport.limits) == ([3.0], [])
    connection.data_received(METRICS[:9])
    assert timers.due == [3.0]
    timers.now_s += 2.0
    connection.data_received(METRICS[9:])
    assert timers.due == [3.0]  # of the five
    assert (transport.answers, transport.is_closed) == (["HTTP/1.1 200 OK"], True)
    connection.data_received(METRICS)
    assert (len(transport.answers), transport.told) == (1, [])
    assert visited.console.connections == 1
    connection.connection_lost(None)
    assert (timers.due, visited.console.connections) == ([], 0)


@pytest.mark.parametrize(("late_s", "left_s"), [(4.5, 0.5), (5.0, 0.0), (9.0, 0.0)])
async def test_who_asks_late_is_let_go_at_once_and_who_does_not_ask_is_cut_off(
    monkeypatch: pytest.MonkeyPatch, late_s: float, left_s: float
) -> None:
    visited = Visited(monkeypatch)
    timers = await visited.start()
    connection, _ = visited.comes()
    timers.now_s += late_s
    connection.data_received(METRICS)
    assert timers.due == [left_s]
    connection.connection_lost(None)
    _, silent = visited.comes()
    timers.run_out()
    assert silent.told == ["abort"]


async def test_with_a_page_each_step_has_a_time_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    face = BrowserFace()
    visited = Visited(monkeypatch, face)
    timers = await visited.start()
    connection, transport = visited.comes()
    assert (timers.due, transport.limits) == ([10.0], [0])
    made: asyncio.Future[Page] = asyncio.get_running_loop().create_future()
    face.page = made
    connection.data_received(GET)
    assert timers.due == [40.0]
    connection.pause_writing()
    made.set_result(UP)
    await turns(3)
    assert timers.due == [20.0]  # to be read
    connection.resume_writing()
    assert timers.due == [30.0]  # to be asked again
    await turns(2)
    connection.data_received(GET[:5])
    assert timers.due == [10.0]
    connection.data_received(GET[5:8])
    assert timers.due == [10.0]
    timers.run_out()
    assert transport.told == ["abort"]
    assert len(transport.answers) == 1


async def test_what_is_asked_ahead_of_an_answer_waits_for_it_unread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    face = BrowserFace()
    visited = Visited(monkeypatch, face)
    await visited.start()
    connection, transport = visited.comes()
    connection.pause_writing()
    connection.data_received(GET)
    connection.data_received(GET.replace(b"/x", b"/y"))
    await turns(3)
    assert (face.asked, transport.told) == ([("/x", "127.0.0.1")], ["pause"])
    connection.resume_writing()
    await turns(3)
    assert [path for path, _ in face.asked] == ["/x", "/y"]
    assert transport.told == ["pause", "resume"]
    assert transport.answers == ["HTTP/1.1 200 OK"] * 2
    assert not transport.is_closed
    connection.data_received(b"nonsense\r\n\r\n")
    await turns(2)
    connection.data_received(b"nonsense\r\n\r\n")
    assert transport.answers[-1] == "HTTP/1.1 400 Bad Request"
    assert transport.is_closed


async def test_a_page_that_can_not_be_made_is_told_so_and_in_the_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken() -> Page:
        raise OSError("no disk")

    face = BrowserFace()
    face.page = broken()
    visited = Visited(monkeypatch, face)
    await visited.start()
    connection, transport = visited.comes()
    connection.data_received(GET)
    await turns(3)
    assert transport.answers == ["HTTP/1.1 500 Internal Server Error"]
    assert "a page could not be made" in caplog.text
    assert "no disk" in caplog.text


async def test_who_has_gone_is_answered_no_more_and_its_answer_is_not_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    face = BrowserFace()
    made: asyncio.Future[Page] = asyncio.get_running_loop().create_future()
    face.page = made
    visited = Visited(monkeypatch, face)
    timers = await visited.start()
    connection, transport = visited.comes()
    connection.data_received(GET)
    await turns(2)
    transport.is_closed = True
    connection.connection_lost(None)
    await turns(3)
    assert (transport.answers, timers.due, made.cancelled()) == ([], [], True)
    next_one, closing = visited.comes()
    face.page = UP
    next_one.data_received(GET)
    next_one.data_received(GET)
    closing.is_closed = True
    await turns(3)
    assert len(face.asked) == 2  # what came ahead is not served where nobody reads


async def test_one_address_has_8_connections_that_are_silent_and_the_oldest_makes_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    visited = Visited(monkeypatch)
    await visited.start()
    came = [visited.comes() for _ in range(8)]
    assert (visited.console.connections, visited.console.refused) == (8, 0)
    visited.comes()
    assert (visited.console.connections, visited.console.refused) == (8, 1)
    assert [transport.told for _, transport in came] == [["abort"], *[[]] * 7]
    came[0][0].connection_lost(None)
    assert visited.console.connections == 8
    other, transport = visited.comes("192.0.2.7")
    other.data_received(METRICS)
    assert transport.answers == ["HTTP/1.1 200 OK"]


async def test_who_finds_no_room_is_cut_off_and_not_served(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    visited = Visited(monkeypatch)
    await visited.start()
    for number in range(16):
        connection, _ = visited.comes(f"192.0.2.{number}")
        connection.data_received(METRICS)
    late, transport = visited.comes("198.51.100.1")
    assert (transport.told, visited.console.refused) == (["abort"], 1)
    late.data_received(METRICS)
    assert transport.answers == []
    assert visited.console.connections == 16
    await visited.console.stop()
    late.connection_lost(None)
    assert visited.console.connections == 16


async def test_16_connections_of_who_has_logged_in_stay_and_further_ones_make_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    face = BrowserFace()
    face.known = "anna"
    visited = Visited(monkeypatch, face)
    await visited.start()
    came = [visited.comes() for _ in range(8)]
    for connection, _ in came:
        connection.data_received(GET)
    more = [visited.comes() for _ in range(8)]
    for connection, _ in more:
        connection.data_received(GET)
    assert not visited.console.has_come("anna")
    assert visited.console.has_come("bob")
    strangers = [visited.comes() for _ in range(9)]
    assert [transport.told for _, transport in [*came, *more]] == [[]] * 16
    assert strangers[0][1].told == ["abort"]
    came[0][0].connection_lost(None)
    came[0][0].connection_lost(None)  # once is enough
    assert visited.console.has_come("anna")
    assert not visited.console.has_come("anna")


async def test_a_metric_is_told_beside_a_page_and_a_guest_answers_below_its_path(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def guest(request: HttpRequest) -> Page:
        return Page("text/plain", f"{request.method} {request.path}".encode())

    face = BrowserFace()
    visited = Visited(monkeypatch, face)
    visited.console.serve_below("/ack/", guest)
    await visited.start()
    connection, transport = visited.comes()
    connection.data_received(METRICS)
    await turns(3)
    connection.data_received(GET.replace(b"/x", b"/ack/7"))
    await turns(3)
    assert transport.written.endswith(b"GET /ack/7")
    assert face.asked == []
    assert visited.console.page("/none") == plain(HTTPStatus.NOT_FOUND)
    assert visited.console.is_for_browsers("/none")
    assert not visited.console.is_for_browsers("/metrics")
    assert visited.console.guest("/ack") is None


async def test_who_shows_a_certificate_that_is_none_is_not_let_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def made(connection: Any, context: object, **calls: Any) -> Any:
        assert context == "context"
        return SimpleNamespace(connection=connection, **calls)

    tls: Any = SimpleNamespace(context="context")
    visited = Visited(monkeypatch)
    visited.console = Console({"/metrics": lambda: UP}, tls=tls)
    monkeypatch.setattr(layer, "TlsLayer", made)
    await visited.start()
    connection = visited.accepted()
    assert not connection.secured(b"no certificate")
    assert connection.secured(None)
    assert connection.connection.certificate is None
    visited.console.follow(None)  # TLS does not go
    assert visited.accepted().secured(None)
