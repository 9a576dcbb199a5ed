"""All that ends with time ends on time over crashes, and never early for a clock that is wrong."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

# A module of this folder, which no package holds under --import-mode=importlib.
sys.path.insert(0, str(Path(__file__).parent))

from passing_days import Days, Device, turn

from gateway.base.lasting_clock import STEP_S, KernelClocks, LastingClock
from gateway.broker.durability.durable_persistence import MARK_S, QUIET_MARK_S
from gateway.broker.durability.restored_sessions import BACK_S
from gateway.mqtt import (
    Disconnect,
    PropertyId,
    Publish,
    ReasonCode,
    Subscribe,
    SubscriptionRequest,
    Will,
)

DAY_S = 24 * 3600
YEAR_S = 365 * DAY_S
OTHER = ("other", 7)


@pytest.fixture(params=[False, True], ids=["from the log", "from a checkpoint"])
async def world(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Days]:
    made = Days(0, sync=False)
    made.takes_checkpoints = request.param
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(loop, "time", lambda: 1000.0 + made.clocks.passed_s)
    made.start()
    made.log.crash_in = 1 << 60
    yield made
    made.close()


async def with_subscriber(world: Days, *, expiry_s: int = 3600) -> None:
    """A session that waits for its client and has a subscription to everything."""
    device = Device(world, "sub", expiry_s=expiry_s)
    device.send(Subscribe(1, [SubscriptionRequest("#", 1)], {}))
    await turn()
    device.goes()
    await turn()


# -- sessions ----------------------------------------------------------------------------------


async def test_a_session_ends_so_long_after_its_client_went_however_often_the_gateway_is_killed(
    world: Days,
) -> None:
    Device(world, expiry_s=3600).goes()
    for _ in range(3):
        world.pass_s(1000)
        await world.kill()
    assert world.left_s("dev") == 600
    world.pass_s(599)
    assert world.core.sessions.get("dev") is not None
    world.pass_s(1)
    assert world.core.sessions.get("dev") is None


async def test_the_time_for_which_the_process_was_down_counts(world: Days) -> None:
    Device(world, expiry_s=3600).goes()
    world.pass_s(1000)
    await world.kill(down_s=2000)
    assert world.left_s("dev") == 600
    await world.kill(down_s=600)
    assert world.core.sessions.get("dev") is None


@pytest.mark.parametrize("is_killed", [True, False], ids=["over a kill", "in one life"])
async def test_a_client_that_comes_before_its_overdue_session_was_looked_at_finds_none(
    world: Days, *, is_killed: bool
) -> None:
    await with_subscriber(world, expiry_s=8)
    Device(world, "other").publish("t", expiry_s=3600)
    await turn()
    if is_killed:
        await world.kill(down_s=12, sweeps=False)
    else:
        world.clocks.pass_s(12)
    back = Device(world, "sub", expiry_s=8)
    await turn()
    assert not back.is_resumed()  # [MQTT-4.1.0-2]
    assert back.got() == []
    assert world.core.sessions.get("sub").subscriptions == {}
    assert world.core.sessions.expired == 1


@pytest.mark.parametrize("is_killed", [True, False], ids=["over a kill", "in one life"])
async def test_a_client_that_comes_before_its_due_will_was_looked_at_does_not_take_it_back(
    world: Days, *, is_killed: bool
) -> None:
    await with_subscriber(world)
    will = Will("gone", b"bye", 1, False, {PropertyId.WILL_DELAY_INTERVAL: 8})
    Device(world, will=will).goes()
    await turn()
    if is_killed:
        await world.kill(down_s=12, sweeps=False)
    else:
        world.clocks.pass_s(12)
    Device(world)
    await turn()
    reader = Device(world, "sub")
    await turn()
    assert [message.payload for message in reader.got()] == [b"bye"]


async def test_the_session_of_a_client_that_was_connected_counts_from_the_restart(
    world: Days,
) -> None:
    Device(world, expiry_s=60)
    for _ in range(10):
        world.pass_s(3000)
    await world.kill(down_s=100)
    assert world.left_s("dev") == 60
    world.pass_s(20)
    await world.kill()
    assert world.left_s("dev") == 40


async def test_a_client_that_came_back_is_not_counted_as_away(world: Days) -> None:
    Device(world, expiry_s=3600).goes()
    await turn()
    world.pass_s(3000)
    Device(world, expiry_s=3600)
    await turn()
    world.pass_s(3000)
    await world.kill()
    assert world.left_s("dev") == 3600


async def test_a_gateway_that_is_stopped_counts_from_then(world: Days) -> None:
    Device(world, expiry_s=3600)
    await turn()
    world.core.stop()
    await world.checkpoint()
    await world.kill(down_s=1000)
    assert world.left_s("dev") == 2600


async def test_the_expiry_given_with_disconnect_is_what_counts(world: Days) -> None:
    device = Device(world, expiry_s=3600)
    expiry: dict[int, Any] = {PropertyId.SESSION_EXPIRY_INTERVAL: 7200}
    device.send(Disconnect(ReasonCode.SUCCESS, expiry))
    device.goes()
    world.pass_s(3000)
    await world.kill()
    assert world.left_s("dev") == 4200


# -- clocks ------------------------------------------------------------------------------------


async def test_a_machine_that_was_off_counts_it_if_its_clock_is_right_before_and_after(
    world: Days,
) -> None:
    Device(world, expiry_s=3600).goes()
    await turn()
    await world.kill(power=lambda: world.clocks.power_cut(1000))
    assert world.left_s("dev") == 2600


@pytest.mark.parametrize("off_by_s", [-50 * YEAR_S, -YEAR_S, -60, 0, 60, YEAR_S, 15 * YEAR_S])
async def test_a_clock_that_nobody_has_set_ends_no_session_and_no_message(
    world: Days, off_by_s: float
) -> None:
    await with_subscriber(world)
    Device(world).publish("t", expiry_s=3600)
    await turn()

    def power_cut() -> None:
        world.clocks.power_cut(1000, is_right=False)
        world.clocks.wall += int(off_by_s * 1e6)

    await world.kill(power=power_cut)
    assert world.left_s("sub") == 3600
    assert world.messages_left_s("sub") == [3600]


@pytest.mark.parametrize("by_s", [-YEAR_S, -60, 60, YEAR_S])
async def test_a_clock_that_is_set_while_the_gateway_runs_ends_no_session_and_no_message(
    world: Days, by_s: float
) -> None:
    world.clocks.is_right = False
    await with_subscriber(world)
    Device(world, "before").publish("t", expiry_s=3600)
    await turn()
    world.pass_s(30)
    world.clocks.wall += int(by_s * 1e6)
    world.clocks.is_right = True
    Device(world, "after").publish("t", expiry_s=3600)
    await turn()
    world.pass_s(100)
    await world.kill()
    assert world.left_s("sub") == 3470
    assert world.messages_left_s("sub") == [3470, 3500]


async def test_without_traffic_a_power_cut_adds_an_hour_at_most(world: Days) -> None:
    Device(world, expiry_s=2 * DAY_S).goes()
    await turn()
    for _ in range(48):
        world.pass_s(DAY_S / 48)
        await turn()
    frames = len(world.log.frames)
    await world.kill(power=lambda: world.clocks.power_cut(1000, is_right=False))
    assert DAY_S <= world.left_s("dev") <= DAY_S + QUIET_MARK_S
    assert frames <= 30  # and a card is not worn for it


@pytest.mark.parametrize("expiry_s", [600, 4 * 3600])
async def test_a_session_whose_client_was_there_at_a_kill_counts_from_the_last_sign_of_life(
    world: Days, expiry_s: int
) -> None:
    Device(world, expiry_s=expiry_s)
    source = Device(world, "source", expiry_s=0)
    for _ in range(65):  # there was a message since the journal was told the time last
        source.publish("t", expiry_s=3600)
        world.pass_s(10)
        await turn()
    # A checkpoint right before the kill is the last sign, and nothing follows it.
    more_s = QUIET_MARK_S + MARK_S if world.takes_checkpoints else 2 * MARK_S
    await world.kill(down_s=500)
    assert expiry_s - 500 <= world.left_s("dev") <= expiry_s - 500 + more_s
    await world.kill(down_s=expiry_s)  # and from no later one over the next
    assert world.core.sessions.get("dev") is None


async def test_without_traffic_it_counts_an_hour_longer_at_most(world: Days) -> None:
    Device(world, expiry_s=DAY_S)
    for _ in range(100):
        world.pass_s(60)
        await turn()
    await world.kill(down_s=10 * 3600)
    assert 14 * 3600 <= world.left_s("dev") <= 15 * 3600 + 2 * MARK_S


@pytest.mark.parametrize("expiry_s", [20, 600])
async def test_after_hours_of_a_full_disk_whoever_was_there_has_a_minute_to_come_back(
    world: Days, expiry_s: int
) -> None:
    await with_subscriber(world, expiry_s=expiry_s)
    Device(world, "sub", expiry_s=expiry_s)
    await turn()
    world.takes_checkpoints, world.log.is_full = False, True
    for _ in range(240):
        world.pass_s(60)
        await turn()
    await world.kill()
    assert world.left_s("sub") == min(expiry_s, BACK_S)


# -- messages and wills ------------------------------------------------------------------------


async def test_what_a_message_has_waited_is_taken_off_after_a_kill(world: Days) -> None:
    await with_subscriber(world)
    Device(world).publish("t", expiry_s=600)
    await turn()
    world.pass_s(200)
    await world.kill(down_s=100)
    device = Device(world, "sub")
    await turn()
    [message] = device.got()
    assert message.properties[PropertyId.MESSAGE_EXPIRY_INTERVAL] == 300  # [MQTT-3.3.2-6]


async def test_a_message_that_expired_while_the_process_was_down_is_not_delivered(
    world: Days,
) -> None:
    await with_subscriber(world)
    Device(world).publish("t", expiry_s=600)
    await turn()
    await world.kill(down_s=600)
    device = Device(world, "sub")
    await turn()
    assert device.got() == []  # [MQTT-3.3.2-5]


async def test_another_gateways_message_counts_from_when_it_came_and_not_by_its_clock(
    world: Days,
) -> None:
    await with_subscriber(world)
    row = ("t", 1, b"x", {int(PropertyId.MESSAGE_EXPIRY_INTERVAL): 600})
    world.log.receive(OTHER, 1, row)  # its clock stood at 1970
    world.core.remote_delivery.publish_batch([row], OTHER, 1)
    await turn()
    world.pass_s(MARK_S)  # the journal is told the time
    world.pass_s(200)
    await world.kill()
    [left_s] = world.messages_left_s("sub")
    assert 600 - MARK_S - 200 <= left_s <= 400


async def test_a_retained_message_ends_on_time_over_a_kill(world: Days) -> None:
    device = Device(world)
    soon: dict[int, Any] = {PropertyId.MESSAGE_EXPIRY_INTERVAL: 600}
    device.send(Publish("t", b"x", 1, True, packet_id=1, properties=soon))
    await turn()
    world.pass_s(200)
    await world.kill()
    assert round(world.core.retention.get("t").expires_at_s - world.core.now(), 3) == 400


@pytest.mark.parametrize("is_killed", [True, False], ids=["over a kill", "in one life"])
async def test_a_retained_message_that_has_ended_is_sent_to_nobody_before_it_was_looked_at(
    world: Days, *, is_killed: bool
) -> None:
    soon: dict[int, Any] = {PropertyId.MESSAGE_EXPIRY_INTERVAL: 8}
    device = Device(world)
    device.send(Publish("t", b"x", 1, True, packet_id=1, properties=soon))
    await turn()
    if is_killed:
        await world.kill(down_s=12, sweeps=False)
    else:
        world.clocks.pass_s(12)
    reader = Device(world, "reader")
    reader.send(Subscribe(1, [SubscriptionRequest("#", 1)], {}))
    await turn()
    assert reader.got() == []


async def test_the_delay_of_a_will_counts_from_when_its_client_went(world: Days) -> None:
    will = Will("gone", b"bye", 1, True, {PropertyId.WILL_DELAY_INTERVAL: 600})
    Device(world, will=will).goes()
    await turn()
    world.pass_s(400)
    await world.kill(down_s=100)
    world.pass_s(99)
    await turn()
    assert world.core.retention.get("gone") is None
    world.pass_s(1)
    await turn()
    assert world.core.retention.get("gone") is not None


# -- the machine's own -------------------------------------------------------------------------


def test_the_kernels_clocks_go_on_over_lives_of_a_process() -> None:
    before = LastingClock(KernelClocks(), 1)
    mark = before.mark()
    after = LastingClock(KernelClocks(), 2)
    after.go_on_from(mark)
    assert mark.lasting_us <= after.now_us() <= before.now_us() + 1
    assert abs(after.wall_ahead_s() - before.wall_ahead_s()) < STEP_S
