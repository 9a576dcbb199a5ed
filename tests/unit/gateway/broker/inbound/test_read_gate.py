"""Packets that wait for a decision: who goes on when it is there, or fails."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from memory_transport import MemoryTransport

from gateway.base.turns import Turns
from gateway.broker.inbound.read_gate import ReadGate
from gateway.broker.limits import Limits, counted_refusals
from gateway.broker.outbound.channel import Channel, PendingWrites
from gateway.broker.statistics.traffic import Traffic
from gateway.mqtt import PacketError, ReasonCode

BROKEN = PacketError(ReasonCode.PROTOCOL_ERROR, "what was decided")


class Gated:
    """A gate, the channel that it holds, and what it told."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        lines = counted_refusals(loop.time)
        turns = Turns(lambda: False)
        self.channel = Channel(PendingWrites(turns, Limits(), lines, Traffic(), loop.time))
        self.transport = MemoryTransport()
        self.channel.opened(self.transport)
        self.told: list[Any] = []
        self.raised: list[BaseException] = []
        loop.set_exception_handler(lambda _, context: self.raised.append(context["exception"]))
        self.verdict: asyncio.Future[str] = loop.create_future()
        self.gate = ReadGate(self.channel, self)

    def go_on(self) -> None:
        self.told.append("go on")

    def fail(self, error: PacketError) -> None:
        self.told.append(error)

    def wait(self, raises: Exception | None = None) -> None:
        def then(result: str | None) -> None:
            self.told.append(("then", result, self.channel.is_stalled))
            if raises is not None:
                raise raises

        self.gate.for_verdict(self.verdict, then)
        assert self.channel.is_stalled
        assert self.gate.verdict is self.verdict

    async def turn(self) -> None:
        for _ in range(3):
            await asyncio.sleep(0)


async def test_a_verdict_is_told_to_who_asked_and_then_what_waited_goes_on() -> None:
    one = Gated()
    one.wait()
    await one.turn()
    assert one.told == []
    one.verdict.set_result("yes")
    await one.turn()
    assert one.told == [("then", "yes", False), "go on"]
    assert (one.gate.verdict, one.channel.is_stalled) == (None, False)


async def test_a_decision_that_fails_is_none_and_is_told_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    one = Gated()
    one.wait()
    one.verdict.set_exception(RuntimeError("the plugin broke"))
    await one.turn()
    assert one.told == [("then", None, False), "go on"]
    assert caplog.messages == ["?: a decision failed: the plugin broke"]


async def test_a_protocol_error_that_a_decision_shows_fails_the_connection() -> None:
    one = Gated()
    one.wait(BROKEN)
    one.verdict.set_result("yes")
    await one.turn()
    assert one.told == [("then", "yes", False), BROKEN, "go on"]
    assert (one.raised, one.transport.is_closed) == ([], False)


async def test_a_connection_whose_decision_cannot_be_followed_is_broken_off() -> None:
    one, error = Gated(), RuntimeError("no room")
    one.wait(error)
    one.verdict.set_result("yes")
    await one.turn()
    assert one.told == [("then", "yes", False)]
    assert (one.raised, one.transport.is_closed) == ([error], True)


@pytest.mark.parametrize("is_decided", [True, False])
async def test_of_a_connection_that_has_ended_nobody_is_told_what_was_decided(
    *, is_decided: bool
) -> None:
    one = Gated()
    one.wait()
    if is_decided:  # but nobody has heard of it yet
        one.verdict.set_result("yes")
    one.gate.end()
    assert one.gate.verdict is None
    assert one.verdict.cancelled() != is_decided
    await one.turn()
    assert one.told == []
    one.gate.end()


async def test_a_connection_that_is_closed_meanwhile_takes_no_verdict() -> None:
    one = Gated()
    one.wait()
    one.channel.abort()
    one.verdict.set_result("yes")
    await one.turn()
    assert (one.told, one.gate.verdict) == ([], None)


async def test_who_ends_a_connection_by_its_verdict_has_nothing_go_on() -> None:
    one = Gated()

    def then(result: str | None) -> None:
        one.told.append(result)
        one.gate.end()

    one.gate.for_verdict(one.verdict, then)
    one.verdict.set_result("no")
    await one.turn()
    assert (one.told, one.raised) == (["no"], [])
