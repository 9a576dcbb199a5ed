"""A write that its client names is carried out once, though it is asked again."""

from __future__ import annotations

import asyncio
from typing import Any

import aiocoap
from aiocoap import resource
from aiocoap.numbers.codes import Code

from tests.remote_fleet import NORTH, Fleet, asking, shown
from tree_handler.remote.executing import REPLY_TOPIC

FIRST, AGAIN = b"\0name-1", b"\x07name-1"
CHANGED = ("2.04", b"")


class _Slow(resource.Resource):  # type: ignore[misc]  # aiocoap is untyped
    """A resource that takes its time."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0
        self.reached, self.hold = asyncio.Event(), asyncio.Event()

    async def render_put(self, _request: Any) -> Any:
        self.count += 1
        self.reached.set()
        await self.hold.wait()
        return aiocoap.Message(code=Code.CHANGED)


async def test_a_write_whose_answer_was_lost_is_carried_out_once_for_who_asks_again() -> None:
    fleet = Fleet(deadline_s=0.3)
    async with asking(fleet) as ask:
        fleet.lose = lambda topic: topic.startswith(REPLY_TOPIC)
        lost = await ask("POST", f"{NORTH}/probe", b"press", request_id=FIRST)
        fleet.lose = lambda _topic: False
        again = await ask("POST", f"{NORTH}/probe", b"press", request_id=AGAIN)
        other = await ask("POST", f"{NORTH}/probe", b"press", request_id=b"\0name-2")
    assert lost.code.dotted == "5.04"
    assert shown(again) == shown(other) == ("2.01", b"sserp")
    assert again.opt.location_path == ("q", "campus", "north", "gw-north", "probe", "1")
    assert [one.payload for one in fleet.north.probe.seen] == [b"press", b"press"]


async def test_who_asks_again_while_it_is_carried_out_waits_for_the_same_answer() -> None:
    fleet = Fleet()
    async with asking(fleet) as ask:
        path = f"{NORTH}/slow"
        slow = _Slow()
        fleet.north.site.add_resource(["slow"], slow)
        first = asyncio.create_task(ask("PUT", path, b"1", request_id=FIRST))
        await slow.reached.wait()
        second = asyncio.create_task(ask("PUT", path, b"1", request_id=AGAIN))
        while fleet.published.count("$hedgerow/query/gw-north") < 2:
            await asyncio.sleep(0)
        slow.hold.set()
        assert [shown(one) for one in await asyncio.gather(first, second)] == [CHANGED, CHANGED]
        assert slow.count == 1


async def test_what_was_asked_before_this_life_of_the_gateway_is_not_carried_out() -> None:
    fleet = Fleet()
    async with asking(fleet) as ask:
        refused = await ask("PUT", f"{NORTH}/probe", b"1", request_id=AGAIN)
    assert refused.code.dotted == "5.04"
    assert b"may have been carried out before" in refused.payload
    assert not fleet.north.probe.seen


async def test_a_name_is_for_one_request_and_one_asker() -> None:
    fleet = Fleet()
    async with asking(fleet) as ask:
        await ask("PUT", f"{NORTH}/probe", b"1", request_id=FIRST)
        other = await ask("PUT", f"{NORTH}/probe", b"2", request_id=FIRST)
        fleet.root.asker = ("psk:other", ("operator",))
        others = await ask("PUT", f"{NORTH}/probe", b"2", request_id=FIRST)
    assert shown(other) == ("4.09", b"Request-Id of another request")
    assert shown(others) == CHANGED
    assert [one.payload for one in fleet.north.probe.seen] == [b"1", b"2"]


async def test_the_nearest_gateways_own_resources_are_written_once_by_their_long_name() -> None:
    fleet = Fleet()
    async with asking(fleet) as ask:
        for asked in (FIRST, AGAIN):
            answer = await ask("POST", "q/-/-/gw-root/probe", b"press", request_id=asked)
            assert shown(answer) == ("2.01", b"sserp")
    assert len(fleet.root.probe.seen) == 1


async def test_a_name_holds_by_the_short_path_here_and_by_the_long_one_at_another_gateway() -> None:
    fleet = Fleet()
    async with asking(fleet) as ask, asking(fleet, "gw-north") as ask_north:
        near = await ask("POST", "probe", b"press", request_id=FIRST)
        far = await ask_north("POST", "q/-/-/gw-root/probe", b"press", request_id=AGAIN)
        again = await ask("POST", "probe", b"press", request_id=AGAIN)
        by_others = await ask_north("POST", "probe", b"press", request_id=FIRST)
    assert [shown(one) for one in (near, far, again, by_others)] == [("2.01", b"sserp")] * 4
    assert near.opt.location_path == again.opt.location_path == ("probe", "1")
    assert far.opt.location_path == ("q", "-", "-", "gw-root", "probe", "1")
    assert len(fleet.root.probe.seen) == 1
    assert len(fleet.north.probe.seen) == 1


async def test_a_named_write_by_the_short_path_is_decided_on_like_any() -> None:
    fleet = Fleet()
    async with asking(fleet) as ask:
        fleet.root.asker = ("psk:guest", ())
        refused = await ask("PUT", "probe", b"1", request_id=FIRST)
        fleet.root.asker = ("psk:operator", ("operator",))
        missing = await ask("PUT", "nothing", b"1", request_id=FIRST)
        done = await ask("PUT", "probe", b"1", request_id=FIRST)
        other = await ask("PUT", "probe", b"2", request_id=FIRST)
    assert [one.code.dotted for one in (refused, missing)] == ["4.03", "4.04"]
    assert shown(done) == CHANGED  # for what was refused is not remembered
    assert shown(other) == ("4.09", b"Request-Id of another request")
    assert [one.payload for one in fleet.root.probe.seen] == [b"1"]


async def test_where_a_name_would_mean_nothing_it_is_refused() -> None:
    fleet = Fleet()
    async with asking(fleet) as ask:
        read = await ask("GET", f"{NORTH}/probe", request_id=FIRST)
        short = await ask("GET", "probe", request_id=FIRST)
        observed = await ask("GET", "probe", request_id=FIRST, observe=0)
        nameless = await ask("PUT", f"{NORTH}/probe", b"1", request_id=b"\0")
        here = await ask("PUT", "probe", b"1", request_id=b"\0")
        crooked = await ask("PUT", "a//probe", b"1", request_id=FIRST)
    refused = (read, short, observed, nameless, here)
    assert [one.code.dotted for one in refused] == ["4.02"] * 5
    assert crooked.code.dotted == "4.00"
    assert not fleet.north.probe.seen
    assert not fleet.root.probe.seen
