"""Goal: a start with less memory than the life before leaves out what does not fit, and says so.

Nothing of it is lost. Directories: test_coap_directory; a whole process: limits/test_small_memory.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from tree_host import until
from waiting_gateways import Gateway, gateways

from gateway.broker.data_plane import LEFT_OUT
from gateway.broker.durability.opening import open_store
from gateway.broker.limits import Limits

MANY, SIZE = 20, 2_000
LITTLE = Limits(retained_bytes=10 * SIZE)


async def publish(one: Gateway, topic: str, payload: bytes) -> None:
    client = one.client("publisher")
    client.subscribe("r/#")
    await turns()
    client.publish(topic, payload, 1, 86_400, retain=True)
    await until(lambda: payload in client.got())
    client.goes()
    await turns()


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def retained(one: Gateway) -> dict[str, bytes]:
    return {topic: message.payload for topic, message in one.core.retention.match("r/#")}


def body(number: int, version: bytes = b"1") -> bytes:
    return b"%03d %s" % (number, version) + bytes(SIZE)


async def again(one: Gateway, limits: Limits, *, is_killed: bool = False) -> None:
    await (one.kill() if is_killed else one.stop())
    one.limits = limits
    await one.start()


async def filled(one: Gateway) -> dict[str, bytes]:
    for number in range(MANY):
        await publish(one, f"r/{number}", body(number))
    all_of_it = retained(one)
    assert len(all_of_it) == MANY
    return all_of_it


async def test_what_does_not_fit_is_left_out_and_is_there_again_with_more_memory(
    tmp_path: Path,
) -> None:
    async with gateways(tmp_path) as make:
        one = await make("gw", 1)
        all_of_it = await filled(one)
        for _ in range(2):
            await again(one, LITTLE)
            some = retained(one)
            assert 0 < len(some) < MANY / 2
            assert some.items() <= all_of_it.items()
            assert one.core.refusals.counts[LEFT_OUT] == MANY - len(some)
        await again(one, Limits())
        assert retained(one) == all_of_it


async def test_it_is_not_read_before_it_is_left_out(tmp_path: Path) -> None:
    async with gateways(tmp_path) as make:
        one = await make("gw", 1)
        await filled(one)
        await one.stop()
        store, found = open_store(tmp_path / "gw" / "broker.db", retained_bytes=5 * SIZE)
        store.close()
        assert len(found.retained) == 4 and found.left_out == MANY - 4
        assert len(found.messages()) == 4
        await one.start()


async def test_what_is_left_out_can_be_deleted_and_is_not_lost_by_what_is_refused(
    tmp_path: Path,
) -> None:
    async with gateways(tmp_path) as make:
        one = await make("gw", 1)
        all_of_it = await filled(one)
        await again(one, LITTLE)
        deleted, refused, *_ = sorted(all_of_it.keys() - retained(one).keys())
        await publish(one, deleted, b"")
        await publish(one, refused, body(7, b"2"))
        assert refused not in retained(one)
        await again(one, LITTLE, is_killed=True)  # the log tells of both
        await again(one, Limits())
        del all_of_it[deleted]
        assert retained(one) == all_of_it


async def test_what_was_retained_when_it_stopped_is_there_after_a_start_with_as_little(
    tmp_path: Path,
) -> None:
    """A message that is left out takes no room from messages that are new or written anew."""
    async with gateways(tmp_path) as make:
        one = await make("gw", 1)
        await filled(one)
        await again(one, LITTLE)
        changed, deleted, *_ = sorted(retained(one))
        await publish(one, changed, body(0, b"2"))
        await publish(one, deleted, b"")
        await publish(one, "r/new", body(99))
        before = retained(one)
        assert {changed, "r/new"} <= before.keys()
        for is_killed in (False, True):
            await again(one, LITTLE, is_killed=is_killed)
            assert before.items() <= retained(one).items()
