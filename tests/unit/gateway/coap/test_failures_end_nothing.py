"""An item that raises ends no service: timers ring again, and others are served."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from loop_clock import Clock

from dtls.core_timer import CoreTimer
from gateway.base.due_timer import FAILED_S, DueTimer
from gateway.base.watched_tasks import WatchedTasks
from gateway.coap.directory.lookup_turns import LookUpTurns
from gateway.home_assistant.commands import REFUSED, Commands
from gateway.sensors.coap_device import CoapDevice, CoapSensor
from gateway.sensors.mqtt_device import MessageForm
from gateway.sensors.sensor import Actuator
from gateway.trust.certificates.expiry import LOOK_S, CertificateExpiry, ExpiryWatch
from record_formats.value import Value
from tree_handler.batch import Row


class Core:
    """Has something due each second, and fails at some times."""

    def __init__(self, *failing: float) -> None:
        self.done: list[float] = []
        self.due = 1.0
        self._failing = failing

    def next_timer(self) -> float:
        return self.due

    def handle_timer(self, now: float) -> None:
        if now in self._failing:
            raise ValueError("bad item")
        self.done.append(now)
        self.due = now + 1.0


def rung(clock: Clock) -> None:
    """Let time pass as an event loop does, to which a callback may raise anything."""
    for _ in range(60):
        try:
            clock.pass_s(0.125)
        except ValueError:
            continue


def test_what_a_core_has_to_do_is_done_though_it_failed_once() -> None:
    clock, core = Clock(), Core(2.0, 3.0)
    timer = DueTimer(clock, clock.time, core.next_timer, core.handle_timer)
    timer.set()
    rung(clock)
    assert core.done == [1.0, 4.0, 5.0, 6.0, 7.0]
    timer.stop()
    rung(clock)
    assert len(core.done) == 5
    assert FAILED_S == 1.0


def test_a_timer_that_is_set_to_a_later_time_does_nothing_before() -> None:
    clock, core = Clock(), Core()
    timer = DueTimer(clock, clock.time, core.next_timer, core.handle_timer)
    timer.set()
    core.due = 5.5
    timer.set()
    rung(clock)
    assert core.done == [5.5, 6.5, 7.5]


async def test_the_timer_of_coap_and_dtls_rings_again_after_a_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dtls.core_timer.FAILED_S", 0.001)
    loop, rings, well = asyncio.get_running_loop(), 0, asyncio.Event()
    loop.set_exception_handler(lambda *_: None)

    def ring() -> None:
        nonlocal rings
        rings += 1
        if rings == 1:
            raise ValueError("bad item")
        well.set()

    CoreTimer(ring).set(loop.time())
    await well.wait()


def test_a_look_up_that_raises_is_dropped_and_the_others_go_on() -> None:
    later: list[Callable[[], None]] = []
    done: list[str] = []
    turns = LookUpTurns(lambda _, turn: later.append(turn), lambda: 0.0)

    def bad() -> bool:
        raise ValueError("bad item")

    def good() -> bool:
        done.append("good")
        return True

    turns.begin("a", bad)
    turns.begin("a", good)
    turns.begin("b", good)
    while later:
        later.pop(0)()
    assert done == ["good", "good"]
    assert turns.has_room("a")


def test_certificates_are_watched_on_though_a_look_at_them_failed() -> None:
    clock, looks = Clock(), []

    def changed() -> None:
        looks.append(clock.time())
        raise ValueError("bad file")

    watch = ExpiryWatch(clock, clock.time, changed)
    ends = [CertificateExpiry("certificate_file", n, "gw", n * LOOK_S + 1) for n in (1, 2)]
    watch.follow(ends)
    for _ in range(4):
        try:
            clock.pass_s(LOOK_S)
        except ValueError:
            continue
    assert looks == [2 * LOOK_S, 3 * LOOK_S]


class Valve(Actuator):
    async def read(self) -> Value:
        return 0.0

    async def write(self, value: Value) -> None:
        """Set by the test's own function."""


async def test_a_command_that_fails_as_nobody_foresaw_costs_no_later_one() -> None:
    began, go_on = asyncio.Event(), asyncio.Event()
    written: list[Any] = []
    refused: list[tuple[str, str]] = []

    async def write(_: Actuator, value: Value, _asker: str) -> None:
        began.set()
        await go_on.wait()
        if value == 1.0:
            raise ZeroDivisionError("no valve")
        written.append(value)

    valve = Valve("valve")
    commands = Commands({"t/set": valve}, "gw/", write, lambda *what: refused.append(what))

    def row(payload: bytes) -> Row:
        return ("t/set", 0, payload)

    commands.hear([row(b"1")])
    await began.wait()
    commands.hear([row(b"2")])
    go_on.set()
    while not written:
        await asyncio.sleep(0)
    assert written == [2.0]
    assert refused == [(REFUSED, "t/set: ZeroDivisionError: no valve")]
    await commands.stop()


async def test_a_device_is_observed_again_whatever_its_answer_raised(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gateway.sensors.coap_device.AGAIN_S", 0.001)
    begun = 0
    pushed: list[Any] = []
    well = asyncio.Event()

    class Client:
        async def observe(self, uri: str) -> Any:
            nonlocal begun
            begun += 1
            if begun > 1:
                well.set()
                await asyncio.Event().wait()
            raise ZeroDivisionError("bad answer")
            yield uri

        async def close(self) -> None:
            """Has nothing open."""

    device = CoapDevice("coap://h/t", MessageForm(), is_observed=True)
    device._client = Client()  # type: ignore[assignment]
    sensor = CoapSensor("roof", device, interval_s=1.0)
    sensor.push = pushed.append
    sensor.begin()
    await well.wait()
    assert [type(one) for one in pushed] == [ZeroDivisionError]
    await sensor.close()


async def test_why_a_part_s_task_fails_is_shown_by_those_who_made_the_part() -> None:
    watched = WatchedTasks()
    part = watched.of_part()

    async def work() -> None:
        raise ValueError("bad item")

    part.start("expiry", work)
    while not watched.failing:
        await asyncio.sleep(0)
    assert watched.failing == {"expiry": "ValueError: bad item"}
    await watched.stop()
    assert part.failing
    await part.stop()
