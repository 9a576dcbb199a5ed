"""A gateway follows a later life of its own of which neighbours tell, and believes no lie."""

from __future__ import annotations

import asyncio
import errno
import itertools
import logging
import os
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest
from fleet_gateway import FleetGateway, until

from gateway.base import replaced_file
from gateway.node.links import greeting, wire
from gateway.node.links.handshake import Credentials
from gateway.node.links.link import Link
from gateway.node.links.tcp import TcpAddress
from gateway.process.state_folder.identity import next_boot_epoch
from gateway.process.state_folder.life import AGAIN_S, AT_ONCE, GatewayLife, Renewals
from tree_handler import boot_epoch
from tree_handler.intervals import Intervals
from tree_handler.replication.repair import Summary
from tree_handler.spanning.bpdu import Bpdu, Kind
from tree_handler.spanning.election import Root

HIGHEST = 2**32 - 1


class Lives:
    """The lives of a gateway whose neighbours tell it of later ones."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.now = 0.0
        self.restarts = 0
        self.later: list[Callable[[], None]] = []
        self._renewals = Renewals(self._again, lambda: self.now)
        self.start()

    def start(self) -> None:
        epoch = next_boot_epoch(self.folder)
        self.life = GatewayLife(
            self.folder, epoch, self._renewals, lambda _s, s: self.later.append(s)
        )

    def _again(self) -> None:
        self.restarts += 1
        self.start()


@pytest.fixture
def lives(tmp_path: Path) -> Lives:
    return Lives(tmp_path)


def test_a_gateway_starts_again_behind_a_later_life_that_a_neighbour_knows_of(lives: Lives) -> None:
    before = lives.life
    later = before.epoch + 1_000
    before.outlived(later)
    before.outlived(later + 1)  # said to a life that is over
    assert lives.restarts == 1
    assert later < lives.life.epoch <= later + boot_epoch.MAX_AHEAD + boot_epoch.MAX_STEP


def test_a_life_goes_on_until_the_next_one_can_be_counted_and_says_so_once(
    lives: Lives, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    before = lives.life
    with monkeypatch.context() as patched:
        full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        patched.setattr(replaced_file, "replace", Mock(side_effect=full))
        for later in (1_000, 2_000, 1_500):
            before.outlived(before.epoch + later)
        assert lives.restarts == 0
    (told,) = [one.getMessage() for one in caplog.records if one.levelno >= logging.ERROR]
    assert "whose next start can't be counted" in told and "No space left" in told
    (try_again,) = lives.later
    try_again()
    assert lives.restarts == 1
    assert lives.life.epoch > before.epoch + 2_000


@pytest.mark.parametrize("order", [(1, 3, 2), (3, 1, 2), (1, 2, 3)])
def test_a_life_that_could_not_be_counted_is_behind_the_latest_that_was_claimed_meanwhile(
    lives: Lives, monkeypatch: pytest.MonkeyPatch, order: tuple[int, ...]
) -> None:
    before = lives.life
    far = 10 * (boot_epoch.MAX_AHEAD + boot_epoch.MAX_STEP)
    with monkeypatch.context() as patched:
        full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        patched.setattr(replaced_file, "replace", Mock(side_effect=full))
        for step in order:
            before.outlived(before.epoch + step * far)
        lives.later.pop()()
        (again,) = lives.later
    again()
    latest = before.epoch + 3 * far
    assert latest < lives.life.epoch <= latest + boot_epoch.MAX_AHEAD + boot_epoch.MAX_STEP
    assert lives.restarts == 1


def test_a_life_that_the_process_ended_begins_behind_no_claim(lives: Lives) -> None:
    ended = lives.life
    ended.end()
    ended.outlived(ended.epoch + 1_000)
    assert (lives.restarts, lives.later) == (0, [])


def test_an_earlier_life_changes_nothing(lives: Lives) -> None:
    lives.life.outlived(lives.life.epoch)
    lives.life.outlived(lives.life.epoch - 1)
    assert lives.restarts == 0


@pytest.mark.parametrize("claim", [boot_epoch.MAX_BELIEVED + 1, HIGHEST, 2**62])
def test_a_life_that_none_can_have_had_is_not_believed_and_that_is_said_once(
    lives: Lives, claim: int, caplog: pytest.LogCaptureFixture
) -> None:
    before = lives.life.epoch
    for _ in range(3):
        lives.life.outlived(claim)
    assert lives.restarts == 0
    (line,) = caplog.messages
    assert line.startswith(f"a neighbour says that it knows boot {claim} of this gateway; ")
    assert "not believed" in line
    assert next_boot_epoch(lives.folder) <= before + boot_epoch.MAX_STEP


def test_the_worst_claim_that_is_believed_leaves_room_for_a_lifetime_of_starts(
    lives: Lives,
) -> None:
    lives.life.outlived(boot_epoch.MAX_BELIEVED)
    assert lives.restarts == 1
    starts = (HIGHEST - lives.life.epoch) // boot_epoch.MAX_STEP
    assert starts > 50_000


def test_whoever_lies_again_and_again_does_not_keep_a_gateway_from_serving(lives: Lives) -> None:
    for _ in range(1_000):
        lives.now += 1.0
        lives.life.outlived(lives.life.epoch + 1)
    assert lives.restarts <= AT_ONCE + 1_000 / AGAIN_S
    lives.now += AGAIN_S
    lives.life.outlived(lives.life.epoch + 1)  # said again, as a true one would be
    assert lives.restarts == AT_ONCE + 2


def test_a_hello_or_a_summary_of_a_liar_does_not_end_a_gateway(tmp_path: Path) -> None:
    asyncio.run(_lied_to(tmp_path))


async def _lied_to(folder: Path) -> None:
    gateway = FleetGateway(folder, "gw-a")
    await gateway.start()
    epoch = gateway.process.parts.life.epoch
    numbers = itertools.count(1)
    own = Credentials("liar", "hedgerow", bytes.fromhex("ab" * 32), epoch=7)
    try:
        link = await greeting.dial(TcpAddress("127.0.0.1", gateway.port), own, numbers)
        await until(lambda: gateway.links == {"liar"})
        link.send(wire.ping(1, _hello(2**62)))
        await until(lambda: not gateway.links)  # there is no such epoch: the link is refused
        link = await greeting.dial(TcpAddress("127.0.0.1", gateway.port), own, numbers)
        await until(lambda: gateway.links == {"liar"})
        summary = Summary({("gw-a", HIGHEST): Intervals([(1, 9)])}, completes=True)
        link.send_control(b"$hedgerow/summary", summary.encode())
        link.send(wire.ping(2, _hello(HIGHEST)))
        await _answered(link, 2)
        assert gateway.process.parts.life.epoch == epoch
        link.close()
    finally:
        await gateway.stop()
    await gateway.start()
    try:
        assert epoch < gateway.process.parts.life.epoch <= epoch + boot_epoch.MAX_STEP
    finally:
        await gateway.stop()


def _hello(epoch: int) -> bytes:
    root = Root("gw-a", epoch, 1e6, "127.0.0.1")
    return Bpdu(Kind.HELLO, 1, "liar", 7, 1e6, root, sequence=9, cost_ms=1, hops=1).encode()


async def _answered(link: Link, number: int) -> None:
    """Wait until a hello is echoed: what was sent before it has been taken."""
    async with asyncio.timeout(60):
        while True:
            packet = await link.receive()
            if packet.type is wire.Type.PINGRESP and wire.split_ping(packet.body)[0] == number:
                return
