"""Topics over the page: who may look and publish, how often, and when a look ends."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.process.page import topic_api
from gateway.process.page.api_request import ApiRequest
from gateway.process.page.opening import PoliciesInUse
from gateway.process.page.topic_api import TopicApi
from gateway.process.page.topic_tap import TopicTap
from gateway.trust.policy.explaining import Policies
from gateway.trust.policy.policy import Policy, PolicyRules
from gateway.trust.policy.principal import Principal
from gateway.web.api_error import ApiError
from tests.policies import admins

ANNA = Principal("console", "anna")


class PublishingCore:
    """Takes what is published."""

    def __init__(self) -> None:
        self.published: list[tuple[str, bytes, int, bool]] = []
        self.commit_queue = self

    def now(self) -> float:
        return 0.0

    def publish_own(self, message: Any) -> None:
        self.published.append((message.topic, message.payload, message.qos, message.retain))


def api(
    core: Any, policy: Policy | None = None, *, tap: TopicTap | None = None, plugins: bool = False
) -> TopicApi:
    return TopicApi(core, TopicTap() if tap is None else tap, policy, asks_plugins=plugins)


def asked(**more: Any) -> ApiRequest:
    body = {"topic": "a/b", "payload": "x"} | more.pop("body", {})
    return ApiRequest(ANNA, "", {}, {"filter": "a/#"} | more, body)


async def refused(work: Any) -> tuple[int, str]:
    with pytest.raises(ApiError) as raised:
        await work
    return int(raised.value.status), raised.value.why


async def test_where_plugins_decide_nobody_looks_or_publishes_over_the_page() -> None:
    core = PublishingCore()
    closed = api(core, plugins=True)
    why = "plugins decide on topics here, and know clients of MQTT alone"
    assert not closed.may_publish(ANNA)
    for work in (closed.publish, closed.retained, closed.messages):
        assert await refused(work(asked())) == (403, why)
    assert core.published == []


async def test_without_a_policy_all_is_published_but_what_is_the_brokers() -> None:
    core = PublishingCore()
    free = api(core)
    assert free.may_publish(ANNA)
    assert await free.publish(asked(body={"retain": True})) == {}
    assert core.published == [("a/b", b"x", 1, True)]
    told = await refused(free.publish(asked(body={"topic": "$SYS/x"})))
    assert told == (403, "the policy does not let console:anna publish there")
    assert len(core.published) == 1


async def test_who_has_no_right_to_topics_neither_looks_nor_publishes() -> None:
    nobody = api(PublishingCore(), Policy(PolicyRules()))
    assert not nobody.may_publish(ANNA)
    told = await refused(nobody.publish(asked()))
    assert told == (403, "the policy does not let console:anna publish there")
    why = "the policy does not let console:anna subscribe to that filter"
    assert await refused(nobody.messages(asked())) == (403, why)
    policy = admins()
    nobody.follow(policy)
    admin = policy.principal("user", "anna")
    assert nobody.may_publish(admin)
    assert not nobody.may_publish(ANNA)  # of a role that nobody gave
    assert await nobody.publish(ApiRequest(admin, "", {}, {}, asked().body)) == {}


@pytest.mark.parametrize(
    ("topic_filter", "why"),
    [("a/#/b", "filter: "), ("", "filter: "), ("$share/g/a", "filter: may not be shared")],
)
async def test_a_filter_that_can_not_be_looked_at_is_named(topic_filter: str, why: str) -> None:
    status, told = await refused(api(PublishingCore()).messages(asked(filter=topic_filter)))
    assert (status, told.startswith(why)) == (400, True)


async def test_20_messages_are_taken_at_once_and_then_5_a_second() -> None:
    core = PublishingCore()
    one = api(core)
    for _ in range(20):
        await one.publish(asked())
    assert await refused(one.publish(asked())) == (429, "too many messages; wait a second")
    assert len(core.published) == 20
    await one.publish(ApiRequest(Principal("console", "bob"), "", {}, {}, asked().body))


async def test_a_look_that_nobody_asks_for_ends_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_api, "KEPT_S", 0.0)
    unwished = list[str]()
    tap = TopicTap(unwish=unwished.append)
    now_s = asyncio.get_running_loop().time()
    for age_s, topic_filter in ((61.0, "old"), (-3600.0, "new")):
        tap.look("anna", topic_filter, lambda _: True, lambda: None, now_s - age_s)
    one = api(PublishingCore(), tap=TopicTap())
    swept = api(PublishingCore(), tap=tap)
    await swept.messages(asked(filter="x"))
    await one.messages(asked())
    while not unwished:
        await asyncio.sleep(0)
    assert unwished == ["old"]
    swept.stop()
    one.stop()
    api(PublishingCore()).stop()


async def test_messages_are_told_behind_a_number_and_of_an_ended_look_all() -> None:
    tap = TopicTap()
    one = api(PublishingCore(), tap=tap)
    assert await one.messages(asked()) == {"messages": [], "after": 0, "left_out": 0}
    tap.hear([("a/1", 0, b"x"), ("b", 0, b"x"), ("a/2", 5, b"y")], 7)
    rows = [
        {
            "number": 1,
            "time_ms": 7,
            "topic": "a/1",
            "payload": "x",
            "form": "text",
            "bytes": 1,
            "qos": 0,
            "retain": False,
        },
        {
            "number": 2,
            "time_ms": 7,
            "topic": "a/2",
            "payload": "y",
            "form": "text",
            "bytes": 1,
            "qos": 1,
            "retain": True,
        },
    ]
    for after, told in ((0, rows), (1, rows[1:]), (2, []), (3, rows)):
        found = await one.messages(asked(after=after))
        assert found == {"messages": told, "after": 2, "left_out": 0}
    waiting = asyncio.create_task(one.messages(asked(after=2, wait_s=60)))
    await asyncio.sleep(0)
    tap.hear([("a/3", 0, b"z")], 8)
    assert [row["number"] for row in (await waiting)["messages"]] == [3]
    assert (await one.messages(asked(after=3, wait_s=0.001)))["messages"] == []
    one.stop()


async def test_4_filters_are_looked_at_by_one_and_a_fifth_is_refused_with_the_reason() -> None:
    one = api(PublishingCore())
    for number in range(4):
        await one.messages(asked(filter=f"a/{number}"))
    why = "too many filters are looked at; each ends a minute after its last request"
    assert await refused(one.messages(asked(filter="a/4"))) == (429, why)
    one.stop()


SIMPLE = SimpleNamespace(qos=1, payload=b"x")


@pytest.mark.parametrize(
    ("count", "is_cut"), [(199, False), (200, False), (201, True), (1_000, True)]
)
async def test_200_retained_messages_are_shown_and_it_is_said_if_there_are_more(
    count: int, *, is_cut: bool
) -> None:
    def walk(topic_filter: str, most: int) -> Any:
        assert (topic_filter, most) == ("a/#", 1_001)
        return iter([(f"a/{number:04}", SIMPLE) for number in range(count)])

    core = SimpleNamespace(retention=SimpleNamespace(walk=walk))
    told = await api(core).retained(asked())
    assert (len(told["messages"]), told["has_more"]) == (min(count, 200), is_cut)


def test_messages_go_by_the_brokers_policy_where_it_has_one_and_all_else_does_not() -> None:
    all_else, brokers = admins(), admins()
    alone: Any = SimpleNamespace(policy=all_else, broker=SimpleNamespace(policy=None))
    apart: Any = SimpleNamespace(policy=all_else, broker=SimpleNamespace(policy=brokers))
    now = PoliciesInUse(alone)
    assert now() == Policies(all_else, all_else)
    now.follow(apart)
    assert now() == Policies(brokers, all_else)
    now.follow(alone)
    assert now() == Policies(all_else, all_else)
