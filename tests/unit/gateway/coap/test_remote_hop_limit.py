"""A Hop-Limit (RFC 8768) is counted down over gateways, of whatever kind a request is."""

from __future__ import annotations

import json
from typing import Any

from aiocoap import Message, resource

from tests.remote_fleet import NORTH, Fleet, asking, shown

SPENT_HERE = ("5.08", b"gw-root")
SPENT_THERE = ("5.08", b"gw-root gw-north")


class _Gauge(resource.ObservableResource):  # type: ignore[misc]  # aiocoap is untyped
    """A value that may be kept, and observed."""

    async def render_get(self, _request: Any) -> Any:
        return Message(payload=b"1", content_format=0, max_age=60)


def far(deadline_s: float = 30.0) -> Fleet:
    """gw-north is two gateways away from gw-root, and has a value that may be kept."""
    made = Fleet(deadline_s=deadline_s)
    made.on_the_way = 2
    for node in made.nodes.values():
        node.site.add_resource(["gauge"], _Gauge())
    return made


async def test_a_plain_request_is_refused_here_or_there_by_who_counts_to_nothing() -> None:
    fleet = far()
    async with asking(fleet) as ask:
        answers = [shown(await ask("GET", f"{NORTH}/probe", hop_limit=n)) for n in (1, 2, 3, 4)]
    assert answers == [SPENT_HERE, SPENT_THERE, SPENT_THERE, ("2.05", b"21.5")]
    assert fleet.published.count("$hedgerow/query/gw-north") == 3
    assert len(fleet.north.probe.seen) == 1


async def test_an_answer_that_is_kept_here_needs_no_hop() -> None:
    fleet = far()
    async with asking(fleet) as ask:
        await ask("GET", f"{NORTH}/gauge", hop_limit=9)
        kept = await ask("GET", f"{NORTH}/gauge", hop_limit=1)
        observed = await ask("GET", f"{NORTH}/gauge", hop_limit=1, observe=0)
    assert shown(kept) == shown(observed) == ("2.05", b"1")
    assert observed.opt.observe is None  # to tell of changes it had to be passed on
    assert fleet.published.count("$hedgerow/query/gw-north") == 1


async def test_what_the_nearest_gateway_has_itself_needs_no_hop() -> None:
    fleet = far()
    async with asking(fleet) as ask:
        read = await ask("GET", "q/-/-/gw-root/probe", hop_limit=1)
        observed = await ask("GET", "q/-/-/gw-root/gauge", hop_limit=1, observe=0)
    assert shown(read) == ("2.05", b"21.5")
    assert observed.opt.observe is not None


async def test_an_observation_is_counted_like_a_request() -> None:
    fleet = far()
    async with asking(fleet) as ask:
        spent = [await ask("GET", f"{NORTH}/gauge", hop_limit=n, observe=0) for n in (1, 3)]
        enough = await ask("GET", f"{NORTH}/gauge", hop_limit=4, observe=0)
        # A subscription stands: what was told of it is kept here.
        later = await ask("GET", f"{NORTH}/gauge", hop_limit=2, observe=0)
    assert [shown(one) for one in spent] == [SPENT_HERE, SPENT_THERE]
    assert shown(enough) == shown(later) == ("2.05", b"1")
    assert enough.opt.observe is not None
    assert later.opt.observe is not None
    assert fleet.published.count("$hedgerow/query/gw-north") == 2


async def test_each_of_many_is_counted_for_itself() -> None:
    async def codes(ask: Any, hops: int) -> dict[str, str]:
        answer = await ask("GET", "q/*/*/*/gauge", hop_limit=hops)
        records = json.loads(answer.payload)
        return {one["n"]: one["vs"] for one in records if one["n"].endswith(".status")}

    fleet = far(deadline_s=0.2)
    async with asking(fleet) as ask:
        here, there, enough = [await codes(ask, hops) for hops in (1, 3, 4)]
    assert here == {
        "gw-root/.status": "2.05",
        "gw-north/.status": "5.08",
        "gw-dead/.status": "5.08",
    }
    assert there["gw-north/.status"] == "5.08"
    assert enough == {
        "gw-root/.status": "2.05",
        "gw-north/.status": "2.05",
        "gw-dead/.status": "5.04",
    }


async def test_what_has_a_hop_limit_is_not_flooded_where_nobody_would_count() -> None:
    fleet = far(deadline_s=0.2)
    fleet.epochs["gw-north"] = None
    async with asking(fleet) as ask:
        counted = await ask("GET", f"{NORTH}/probe", hop_limit=9)
        uncounted = await ask("GET", f"{NORTH}/probe")
    assert counted.code.dotted == "5.04"
    assert shown(uncounted) == ("2.05", b"21.5")
    assert len(fleet.north.probe.seen) == 1
