"""A gateway is told that another one runs under its id: once, however often that one tries."""

from __future__ import annotations

import asyncio
import logging

import pytest
from loop_clock import Clock

from gateway.process.state_folder.copied_card import TOPIC, CopiedCard
from tree_handler.batch import Entry, Flags, Header

HEADER = Header("gw-a", 1, 1, 1, Flags.CONTROL, 0, 0, 0)


class Told:
    """A publisher that keeps the messages."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, bytes]] = []

    def publish(self, topic: str, payload: bytes) -> None:
        self.sent.append((topic, payload))


async def test_the_member_says_once_who_is_kept_out(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    told = Told()
    keeper, member = CopiedCard("gw-a", 5, told.publish), CopiedCard("gw-b", 7, told.publish)
    for _ in range(3):
        keeper.kept_out("gw-b", 9)
    ((topic, payload),) = told.sent
    assert topic == TOPIC + "gw-b"
    for _ in range(3):
        member.receive(Entry(topic, payload), HEADER)
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("gw-a keeps out another gateway under the id of this one (boot 9)")


@pytest.mark.parametrize(
    ("topic", "payload"),
    [
        ("gw-c", b"\x09"),  # another's matter
        ("gw-b", b"\x07"),  # this very life
        ("gw-b", b""),
        ("gw-b", b"\xa1x"),
        ("gw-b", b"\xc1"),
    ],
)
async def test_nothing_is_said_of_anything_else(
    caplog: pytest.LogCaptureFixture, topic: str, payload: bytes
) -> None:
    member = CopiedCard("gw-b", 7, Told().publish)
    member.receive(Entry(TOPIC + topic, payload), HEADER)
    assert not caplog.records


async def test_it_is_said_again_every_ten_minutes_while_it_lasts(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock, told = Clock(), Told()
    with monkeypatch.context() as patched:
        patched.setattr(asyncio, "get_running_loop", lambda: clock)
        keeper, member = CopiedCard("gw-a", 5, told.publish), CopiedCard("gw-b", 7, told.publish)
    for minute in range(21):
        clock.now_s = 60.0 * minute
        keeper.kept_out("gw-b", 9)
        keeper.kept_out("gw-c", 9)
        member.receive(Entry(TOPIC + "gw-b", b"\x09"), HEADER)
    assert [topic for topic, _ in told.sent] == [TOPIC + "gw-b", TOPIC + "gw-c"] * 3
    assert len(caplog.records) == 3
