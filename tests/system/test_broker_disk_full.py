"""A disk that is full, read-only or broken while clients publish, and at the start.

Publishers at QoS 1 and 2 are told why (5.0) or held back (3.1.1), QoS 0 goes on, and what was
acknowledged is there; once there is room, everything works again without a restart.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from brokers import Gateway, logged
from disks import Ext4, Tmpfs, unmounted_at_the_end
from durable_client import DurableClient, settled
from ledger import Ledger, Message
from raw_packets import V5, V311

QUOTA_EXCEEDED = 0x97
SOON_S = 60.0
"""An awaited event that does not come by then does not come."""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Tmpfs]:
    made = Tmpfs(tmp_path / "disk", 2048)
    with unmounted_at_the_end(made):
        yield made


@pytest.fixture
def ext4(tmp_path: Path) -> Iterator[Ext4]:
    made = Ext4(tmp_path / "disk", tmp_path / "image", size_mib=16)
    made.mount()
    with unmounted_at_the_end(made):
        yield made


@pytest.fixture(params=["write", "sync"])
def durability(request: pytest.FixtureRequest) -> str:
    made: str = request.param
    return made


@pytest.fixture
async def gateway(tmp_path: Path, disk: Tmpfs, durability: str) -> AsyncIterator[Gateway]:
    made = Gateway(tmp_path, durability, segment_bytes=32 << 10, state=disk.folder / "state")
    await made.start()
    yield made
    made.kill()
    await made.ended()


class Cast:
    """A publisher of each version and a subscriber to everything."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.publishers = {
            version: DurableClient(f"publisher{version}", version, self.ledger)
            for version in (V311, V5)
        }
        self.subscriber = DurableClient("subscriber", V5, self.ledger)

    async def come(self, port: int) -> None:
        for client in (*self.publishers.values(), self.subscriber):
            client.keep(port)
        await self.subscriber.subscribe("#", 2)

    def go(self) -> None:
        for client in (*self.publishers.values(), self.subscriber):
            client.stop()

    def got(self, message: Message) -> int:
        """Return how often the subscriber got it."""
        return self.ledger.deliveries["subscriber"].count(message)

    async def until_answered(self, *messages: Message) -> None:
        assert await self.ledger.until(
            lambda: all(m.acknowledged_at is not None or m.reason for m in messages), SOON_S
        )

    async def until_got(self, *messages: Message) -> None:
        assert await self.ledger.until(lambda: all(self.got(m) for m in messages), SOON_S)


@pytest.fixture
async def cast() -> AsyncIterator[Cast]:
    made = Cast()
    yield made
    made.go()


@pytest.mark.parametrize("qos", [1, 2])
async def test_a_5_0_publisher_is_told_that_the_disk_is_full(
    gateway: Gateway, disk: Tmpfs, cast: Cast, qos: int
) -> None:
    await cast.come(gateway.port)
    disk.fill()
    publisher = cast.publishers[V5]
    refused = [publisher.publish("t", bytes(5_000), qos) for _ in range(10)]
    await cast.until_answered(*refused)
    assert {m.reason for m in refused} == {QUOTA_EXCEEDED}
    after = publisher.publish("t", b"", 0)
    await cast.until_got(after)
    assert not any(map(cast.got, refused))


@pytest.mark.parametrize("qos", [1, 2])
async def test_a_3_1_1_publisher_is_held_back_until_there_is_room(
    gateway: Gateway, disk: Tmpfs, cast: Cast, qos: int
) -> None:
    await cast.come(gateway.port)
    disk.fill()
    held = [cast.publishers[V311].publish("t", bytes(5_000), qos) for _ in range(10)]
    refused = cast.publishers[V5].publish("t", bytes(5_000), 1)
    await cast.until_answered(refused)  # the disk is known to be full
    assert not any(m.acknowledged_at for m in held)
    disk.free()
    await cast.until_answered(*held)
    await cast.until_got(*held)
    await cast.subscriber.ping()
    assert [cast.got(m) for m in held] == [1] * 10


async def test_qos_0_goes_on_while_the_disk_is_full_and_to_retained_topics_too(
    gateway: Gateway, disk: Tmpfs, cast: Cast
) -> None:
    await cast.come(gateway.port)
    disk.fill()
    refused = cast.publishers[V5].publish("t", bytes(5_000), 1)
    await cast.until_answered(refused)
    assert refused.reason
    for version, publisher in cast.publishers.items():
        assert await cast.ledger.until(lambda p=publisher: p.is_connected, SOON_S)
        for retain in (False, True):
            message = publisher.publish(f"zero/{version}", bytes(10), 0, retain=retain)
            await cast.until_got(message)


async def test_everything_works_again_without_a_restart_and_nothing_acknowledged_is_lost(
    gateway: Gateway, disk: Tmpfs, cast: Cast
) -> None:
    """The disk fills up, is freed and fills up again while four exchanges of each kind run."""
    await cast.come(gateway.port)

    async def publish(publisher: DurableClient, qos: int, stop: asyncio.Event) -> None:
        while not stop.is_set():
            if publisher.unsettled < 20:
                publisher.publish(f"t/{qos}", bytes(300), qos)
            await asyncio.sleep(0.002)

    ledger = cast.ledger
    for _ in range(3):
        stop = asyncio.Event()
        work = [
            asyncio.create_task(publish(publisher, qos, stop))
            for publisher in cast.publishers.values()
            for qos in (1, 2)
        ]
        taken, refused = len(ledger.taken), count_refused(ledger)
        assert await ledger.until(lambda n=taken: len(ledger.taken) > n + 50, SOON_S)
        disk.fill()
        # Told so, or held back where an earlier exchange can't be completed without the log.
        assert await ledger.until(
            lambda n=refused: (
                count_refused(ledger) > n + 50
                or all(publisher.unsettled >= 20 for publisher in cast.publishers.values())
            ),
            SOON_S,
        )
        disk.free()
        taken = len(ledger.taken)
        assert await ledger.until(lambda n=taken: len(ledger.taken) > n + 50, SOON_S)
        stop.set()
        await asyncio.gather(*work)
    assert await ledger.until(lambda: settled(*cast.publishers.values()), SOON_S)
    assert await ledger.until(lambda: not ledger.lost(), SOON_S), ledger.lost()[:10]
    await cast.subscriber.ping()
    assert not ledger.doubled()
    assert not ledger.disordered()
    assert not [m for m in ledger.messages.values() if m.reason and cast.got(m)]
    gateway.kill()
    await gateway.ended()
    kept = logged(gateway.state)
    assert not [m for m in ledger.taken if m.payload not in kept]
    assert not [m for m in ledger.messages.values() if m.reason and m.payload in kept]
    full = [line for line in gateway.lines if "No space left" in line]
    assert 0 < len(full) <= SOON_S * 3  # a line a second at most


def count_refused(ledger: Ledger) -> int:
    return sum(bool(m.reason) for m in ledger.messages.values())


async def test_a_session_that_was_away_gets_all_that_was_acknowledged_around_a_full_disk(
    gateway: Gateway, disk: Tmpfs, cast: Cast
) -> None:
    await cast.come(gateway.port)
    await cast.subscriber.leave()
    publisher = cast.publishers[V5]
    for full in (False, True, False):
        if full:
            disk.fill()
        messages = [publisher.publish("t", bytes(2_000), qos) for qos in (1, 2) * 10]
        await cast.until_answered(*messages)
        assert any(m.reason for m in messages) is full
        if full:
            disk.free()
    gateway.kill()
    await gateway.ended()
    await gateway.start()
    cast.subscriber.keep(gateway.port)
    ledger = cast.ledger
    assert await ledger.until(lambda: not ledger.lost(), SOON_S), ledger.lost()[:3]
    assert not ledger.wrong_sessions


async def test_a_subscription_is_refused_or_kept_while_the_disk_is_full(
    gateway: Gateway, disk: Tmpfs, cast: Cast
) -> None:
    """A subscription that SUBACK granted is in force after a kill."""
    await cast.come(gateway.port)
    client = DurableClient("late", V5, cast.ledger)
    await client.open(gateway.port)
    disk.fill()
    refused = cast.publishers[V5].publish("t", bytes(5_000), 1)
    await cast.until_answered(refused)
    granted = True
    try:
        async with asyncio.timeout(2):
            await client.subscribe("late", 1)
    except (AssertionError, TimeoutError, OSError):
        granted = False
    disk.free()
    gateway.kill()
    await gateway.ended()
    await gateway.start()
    client.stop()
    if not granted:
        return
    client.keep(gateway.port)
    message = cast.publishers[V5].publish("late", b"", 1)
    await cast.until_answered(message)
    got = cast.ledger.deliveries["late"]
    assert await cast.ledger.until(lambda: message in got, SOON_S)


# -- a disk that breaks ----------------------------------------------------------------------------


@pytest.mark.peer("mkfs.ext4", "e2fsprogs")
@pytest.mark.parametrize("how", ["breaks", "read-only"])
async def test_a_disk_that_breaks_refuses_and_keeps_what_was_acknowledged(
    tmp_path: Path, ext4: Ext4, durability: str, cast: Cast, how: str
) -> None:
    """Every call to it fails from a moment on, or every write, as when an SD card dies."""
    gateway = Gateway(tmp_path, durability, segment_bytes=32 << 10, state=ext4.folder / "state")
    await gateway.start()
    try:
        await cast.come(gateway.port)
        publisher = cast.publishers[V5]
        before = [publisher.publish("t", bytes(100), qos) for qos in (1, 2)]
        await cast.until_got(*before)
        assert await cast.ledger.until(lambda: settled(publisher), SOON_S)
        if how == "breaks":
            ext4.cut_power()
        else:
            ext4.fail_to_read_only()
        refused = [publisher.publish("t", bytes(100), qos) for qos in (1, 2)]
        await cast.until_answered(*refused)
        assert {m.reason for m in refused} == {QUOTA_EXCEEDED}
        after = publisher.publish("t", b"", 0)
        await cast.until_got(after)
    finally:
        gateway.kill()
        await gateway.ended()
    if durability == "sync":  # else a disk that fails takes what it was not yet given
        ext4.unmount()
        ext4.mount()
        assert {m.payload for m in before} <= logged(gateway.state)


# -- the start -------------------------------------------------------------------------------------


async def one_line(gateway: Gateway) -> str:
    """A start fails with exit code 1, so that systemd tries again, and says why in one line."""
    gateway.lines.clear()
    await gateway.start(wait=False)
    assert await gateway.ended() == 1, "\n".join(gateway.lines)
    (line,) = gateway.lines
    assert line.startswith(f"hedgerow: gateway.state_dir: {gateway.state}"), line
    return line


@pytest.mark.parametrize("history", ["new", "used"])
async def test_a_start_on_a_full_disk_is_one_line(
    tmp_path: Path, disk: Tmpfs, history: str
) -> None:
    gateway = Gateway(tmp_path, "write", state=disk.folder / "state")
    if history == "used":
        await gateway.start()
        await gateway.stop()
    disk.fill()
    assert "No space left on device; make room on its disk" in await one_line(gateway)
    disk.free()
    await gateway.start()
    assert await gateway.stop() == 0


@pytest.mark.parametrize("history", ["new", "used", "torn"])
async def test_a_start_on_a_read_only_disk_is_one_line(
    tmp_path: Path, disk: Tmpfs, history: str
) -> None:
    gateway = Gateway(tmp_path, "write", state=disk.folder / "state")
    if history != "new":
        await gateway.start()
        await gateway.stop()
    if history == "torn":
        (segment,) = (gateway.state / "log").glob("*.log")
        with segment.open("ab") as file:
            file.write(b"HB\x01")
    disk.make_read_only()
    assert "Read-only file system; its disk is mounted to be read only" in await one_line(gateway)
