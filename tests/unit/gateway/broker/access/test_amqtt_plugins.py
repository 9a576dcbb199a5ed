"""amqtt's plugins without a broker: what they are shown, and what of them is remembered."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from typing import Any, ClassVar

import pytest
from amqtt.contexts import Action
from amqtt.plugins.base import BaseTopicPlugin
from log_world import LogWorld

from gateway.base.event_log.counted_lines import CountedLines
from gateway.broker.access import amqtt_plugins
from gateway.broker.access.amqtt_plugins import AmqttPlugins
from gateway.broker.access.guard import Access, Guard
from gateway.broker.access.plugins import TopicPlugins
from gateway.broker.data_plane import DataPlane
from gateway.broker.hooks import Client
from gateway.broker.limits import Limits, counted_refusals
from gateway.trust.tls.peer_certificate import PeerCertificate

CLIENT = Client("c", "anna", "192.0.2.7", 5)


class Asked(BaseTopicPlugin):
    """Allows, refuses or fails as a test says, at once, and notes what it was asked."""

    asked: ClassVar[list[tuple[Any, str, Action]]] = []
    answer: ClassVar[Any] = True

    async def topic_filtering(
        self, *, session: Any = None, topic: Any = None, action: Any = None
    ) -> bool:
        self.asked.append((session, topic, action))
        if isinstance(self.answer, Exception):
            raise self.answer
        return bool(self.answer)


@pytest.fixture
async def host() -> AsyncIterator[AmqttPlugins]:
    Asked.asked.clear()
    Asked.answer = True
    running: asyncio.Future[DataPlane] = asyncio.get_running_loop().create_future()
    made = AmqttPlugins({f"{__name__}.Asked": {}}, running)
    yield made
    await made.stopped()


@pytest.fixture
def topics(host: AmqttPlugins) -> TopicPlugins:
    assert host.topics is not None
    return host.topics


async def said(verdict: bool | Awaitable[bool]) -> bool:
    return await verdict if isinstance(verdict, Awaitable) else verdict


async def test_a_plugin_is_shown_who_a_client_is_and_its_certificate_in_binary_form(
    topics: TopicPlugins,
) -> None:
    certificate = PeerCertificate("anna", frozenset(), b"DER")
    proved = Client("c", "anna", "192.0.2.7", 5, certificate)
    for client in (CLIENT, proved):
        assert await said(topics.may_publish(client, "t"))
    plain, verified = (session for session, *_ in Asked.asked)
    for session in (plain, verified):
        shown = session.client_id, session.username, session.remote_address
        assert shown == ("c", "anna", "192.0.2.7")
    assert plain.ssl_object is None
    assert verified.ssl_object.getpeercert(binary_form=True) == b"DER"
    with pytest.raises(NotImplementedError, match="binary form"):
        verified.ssl_object.getpeercert()


@pytest.mark.parametrize("answer", [True, False])
async def test_each_use_of_a_topic_is_asked_for_by_its_name(
    topics: TopicPlugins, *, answer: bool
) -> None:
    Asked.answer = answer
    assert await said(topics.may_publish(CLIENT, "a")) is answer
    assert await said(topics.may_subscribe(CLIENT, "b/#")) is answer
    assert topics.may_deliver(CLIENT, "c") is answer
    uses = [(topic, action) for _, topic, action in Asked.asked]
    assert uses == [("a", Action.PUBLISH), ("b/#", Action.SUBSCRIBE), ("c", Action.RECEIVE)]
    assert not topics.is_concealed(CLIENT, "b/#"), "a plugin has no word for it"


async def test_whether_a_topic_may_be_delivered_is_asked_once_until_rules_are_read_again(
    topics: TopicPlugins,
) -> None:
    assert [topics.may_deliver(CLIENT, "t") for _ in range(3)] == [True] * 3
    assert len(Asked.asked) == 1
    Asked.answer = False
    assert topics.may_deliver(CLIENT, "t") is True
    topics.forget()
    assert topics.may_deliver(CLIENT, "t") is False
    assert len(Asked.asked) == 2


async def test_so_many_answers_are_remembered_and_then_all_are_forgotten(
    topics: TopicPlugins, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(amqtt_plugins, "REMEMBERED_MAX", 2)
    for topic in ("a", "b", "a", "b"):
        topics.may_deliver(CLIENT, topic)
    assert len(Asked.asked) == 2
    for topic in ("c", "c", "a"):
        topics.may_deliver(CLIENT, topic)
    assert [topic for _, topic, _ in Asked.asked] == ["a", "b", "c", "a"]


async def test_a_plugin_that_fails_at_once_has_nothing_delivered(topics: TopicPlugins) -> None:
    Asked.answer = RuntimeError("no database")
    verdict = topics.may_deliver(CLIENT, "t")
    assert isinstance(verdict, Awaitable), "all are asked once more, and what fails is told then"
    assert not await verdict
    assert topics.may_deliver(CLIENT, "t") is False


async def test_files_that_are_read_again_have_plugins_asked_again(host: AmqttPlugins) -> None:
    world = LogWorld()
    lines: CountedLines = counted_refusals(lambda: 0.0)
    guard = Guard(Access(), host, anonymous=True, limits=Limits(), refusals=lines)
    assert (guard.asks_plugins, guard.has_rules) == (True, True)
    assert guard.may_deliver(CLIENT, "t") is True
    Asked.answer = False
    assert guard.may_deliver(CLIENT, "t") is True
    guard.follow(Access(), world.core)
    assert guard.may_deliver(CLIENT, "t") is False
