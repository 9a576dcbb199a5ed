"""Alerts about the tree, the log and a release, raised by what they are about.

A real gateway meets each condition: a root that is killed again and again, a log that is damaged
while its gateway is down, a disk that is full, a release that nobody confirms. A webhook is told.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import sysconfig
import venv
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from alert_receiver import AlertReceiver
from brokers import Gateway
from caused_gateway import NAP_S, ONCE, CausedGateway, caused_gateway, until
from disks import Tmpfs, unmounted_at_the_end
from ports import free_port

from gateway.alerting.judging import ELECTIONS
from gateway.releases.folder import INSTALLED, LINK, RELEASES, ReleaseFolder
from gateway.releases.guard import ReleaseGuard
from gateway.releases.trial import ServiceEnds

OLD, NEW, NEWER = "1-old", "2-new", "3-newer"
QUOTA_EXCEEDED = 0x97
SYNC = '[log]\ndurability = "sync"\n'


@pytest.fixture
def caused(tmp_path: Path) -> Iterator[CausedGateway]:
    with caused_gateway(tmp_path) as made:
        yield made


@pytest.fixture
def receiver() -> Iterator[AlertReceiver]:
    made = AlertReceiver()
    with made.serving():
        yield made


def alerts_to(receiver: AlertReceiver, rule: str) -> str:
    """Configuration by which this one rule is told soon."""
    return f"""
[alerts]
look_s = 0.1
gather_s = 0
after_s = {{{rule} = 0}}
routes = [{{to = ["webhook"], match = {{rule = "{rule}"}}}}]
webhook = {{url = "{receiver.url}"}}
"""


async def told(receiver: AlertReceiver, rule: str, *wanted: str) -> None:
    await until(lambda: receiver.changes(rule).total() >= len(wanted), f"{rule}: {wanted}")
    assert receiver.changes(rule) == Counter(wanted)


@pytest.mark.soak("four starts of a gateway, and as many elections")
async def test_root_flapping_is_raised_by_its_cause(tmp_path: Path, caused: CausedGateway) -> None:
    (tmp_path / "head").mkdir()
    head = CausedGateway(tmp_path / "head", AlertReceiver(), caused.clock)
    head.id, head.port, head.receiver.url = "head", free_port(), "http://127.0.0.1:9/"
    head.tree, caused.tree = "capability = 30\nhello_s = 0.3", "capability = 10\nhello_s = 0.3"
    caused.neighbours = [f"127.0.0.1:{head.port}"]
    await caused.start()
    try:
        for number in range(ELECTIONS):
            assert not caused.receiver.changes("root-flapping"), number
            await head.start()
            await until(lambda: caused.metric("hedgerow_tree_hops") == 1, "the head is the root")
            head.kill()
            await until(lambda: caused.metric("hedgerow_tree_hops") == 0, "the other one is")
    finally:
        head.kill()
    await caused.told("root-flapping", "raised")
    await caused.told("root-flapping", "cleared", nap_s=NAP_S)
    assert caused.receiver.changes("root-flapping") == ONCE


async def test_messages_lost_is_raised_by_its_cause(
    caused: CausedGateway, request: pytest.FixtureRequest
) -> None:
    caused.more = SYNC
    await caused.start()
    publisher = await caused.client("publisher")
    for number in range(50):
        await publisher.publish("meters/tank", b"%d" % number)
    publisher.close()
    caused.stop()
    segment = max((caused.state / "log").glob("*.log"), key=lambda path: int(path.stem))
    data = bytearray(segment.read_bytes())
    data[len(data) // 2] ^= 0x10
    segment.write_bytes(data)
    await caused.start()
    await caused.told("messages-lost", "raised")
    if request.config.getoption("--soak"):  # an hour, in naps
        await caused.told("messages-lost", "cleared", nap_s=NAP_S)
        assert caused.receiver.changes("messages-lost") == ONCE


async def test_log_refuses_is_raised_by_its_cause(tmp_path: Path, caused: CausedGateway) -> None:
    disk = Tmpfs(tmp_path / "disk", 4096)
    with unmounted_at_the_end(disk):
        caused.state = disk.folder / "state"
        caused.more = f"{SYNC}segment_bytes = {32 << 10}\n"
        try:
            await caused.start()
            publisher = await caused.client("publisher")
            disk.fill()
            codes = [await publisher.publish("meters/tank", bytes(5_000)) for _ in range(10)]
            assert QUOTA_EXCEEDED in codes
            await caused.told("log-refuses", "raised", nap_s=NAP_S)
            disk.free()
            assert await publisher.publish("meters/tank", bytes(5_000)) in {0, 0x10}
            await caused.told("log-refuses", "cleared", nap_s=NAP_S)
            assert caused.receiver.changes("log-refuses") == ONCE
        finally:
            caused.kill()  # before its disk goes


class ReleasedGateway(Gateway):
    """A gateway that runs from the release to which the link of a folder leads."""

    releases: ReleaseFolder

    def command(self) -> list[str]:
        return [str(self.releases.path / LINK / "bin/python"), *super().command()[1:]]


class Machine:
    """A machine that is never booted, and leaves the service to the test."""

    def boot_id(self) -> str:
        return "boot"

    def ends(self) -> ServiceEnds | None:
        return None

    def restart(self) -> None:
        """Leave it to the test."""

    def start_guard(self) -> None:
        """Leave it to the test."""


class Listeners:
    """Listeners that answer."""

    def schemes(self) -> list[str]:
        return ["mqtt"]

    def complaints(self, _schemes_before: object) -> list[str]:
        return []


def installed(folder: Path) -> ReleaseFolder:
    """Environments of which each runs the product, with the second one's trial still to come."""
    for release in (OLD, NEW, NEWER):
        path = folder / RELEASES / release
        venv.create(path, symlinks=True)
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        packages = path / "lib" / version / "site-packages"
        tested = sysconfig.get_path("purelib")
        (packages / "tested.pth").write_text(f"import site; site.addsitedir({tested!r})\n")
        (path / INSTALLED).touch()
    made = ReleaseFolder(folder)
    made.switch(OLD)
    return made


async def test_release_returned_is_raised_by_its_cause(
    tmp_path: Path, receiver: AlertReceiver
) -> None:
    releases = installed(tmp_path / "opt")
    guard = ReleaseGuard(releases, Machine(), Listeners())
    gateway = ReleasedGateway(tmp_path, "sync")
    gateway.releases = releases
    with gateway.config.open("a") as file:
        file.write(alerts_to(receiver, "release-returned"))
    try:
        guard.try_release(NEW, within_s=0.2)
        await gateway.start()
        await asyncio.to_thread(guard.watch)  # nobody confirms it in time
        assert releases.current() == OLD
        await gateway.stop()
        await gateway.start()
        await told(receiver, "release-returned", "raised")
        guard.try_release(NEWER, within_s=3_600)
        await gateway.stop()
        await gateway.start()
        guard.confirm(NEWER)
        await told(receiver, "release-returned", "raised", "cleared")
    finally:
        with contextlib.suppress(AssertionError):
            gateway.kill()
            await gateway.ended()
