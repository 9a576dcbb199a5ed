"""amqtt's own plugins, configured by the gateway's TOML file, are loaded, asked and obeyed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
from amqtt.contexts import Action
from amqtt.plugins.authentication import Argon2Hasher
from amqtt.plugins.base import BaseAuthPlugin, BasePlugin, BaseTopicPlugin
from mqtt_peer import LIMIT_S, Bench, Peer

from gateway.broker.access import amqtt_plugins
from gateway.broker.access.passwords import Passwords
from gateway.broker.access.plugins import PluginConfigError
from gateway.broker.limits import Limits
from gateway.mqtt import PingReq, Publish, ReasonCode, Unsubscribe
from gateway.process.configuration import config
from gateway.trust.policy.older import AccessPolicy, Rules
from gateway.trust.policy.policy import Policy
from tree_handler.batch import Entry

REFUSED = ReasonCode.NOT_AUTHORIZED
WRONG = ReasonCode.BAD_USER_NAME_OR_PASSWORD
HERE = __name__

Start = Callable[..., Awaitable[Bench]]


class Told(BasePlugin[Any]):
    """Notes the events that it is told."""

    events: ClassVar[list[tuple[Any, ...]]] = []

    async def on_broker_pre_start(self) -> None:
        self.events.append(("pre start",))

    async def on_broker_post_start(self) -> None:
        self.events.append(("post start",))

    async def on_broker_client_connected(self, *, client_id: str, client_session: Any) -> None:
        self.events.append(("connected", client_id, client_session.username))

    async def on_broker_client_disconnected(self, *, client_id: str, client_session: Any) -> None:
        self.events.append(("disconnected", client_id))

    async def on_broker_client_subscribed(self, *, client_id: str, topic: str, qos: int) -> None:
        self.events.append(("subscribed", client_id, topic, qos))

    async def on_broker_client_unsubscribed(self, *, client_id: str, topic: str) -> None:
        self.events.append(("unsubscribed", client_id, topic))

    async def on_broker_pre_shutdown(self) -> None:
        self.events.append(("pre shutdown",))

    async def on_broker_post_shutdown(self) -> None:
        self.events.append(("post shutdown",))

    async def close(self) -> None:
        self.events.append(("closed",))


class Looking(BasePlugin[Any]):
    """Shows what it was given, and says something before anybody can hear it."""

    contexts: ClassVar[list[Any]] = []

    def __init__(self, context: Any) -> None:
        super().__init__(context)
        self.contexts.append(context)

    async def on_broker_pre_start(self) -> None:
        await self.context.retain_message("early", b"before it listened", 1)


class Slow(BaseTopicPlugin):
    """Decides after others had their turn, as a plugin that asks a server does."""

    async def topic_filtering(
        self, *, session: Any = None, topic: Any = None, action: Any = None
    ) -> bool:
        await asyncio.sleep(0)
        return not (action == Action.RECEIVE and topic == "closed")


class FailsLate(Slow):
    """Fails where the other one refuses, as one does whose server does not answer."""

    async def topic_filtering(
        self, *, session: Any = None, topic: Any = None, action: Any = None
    ) -> bool:
        if not await super().topic_filtering(session=session, topic=topic, action=action):
            raise RuntimeError("no server")
        return True


class Lenient(BaseAuthPlugin):
    """Lets everybody in as amqtt's own does for anonymous clients."""

    async def authenticate(self, *, session: Any) -> bool:
        session.is_anonymous = True
        return True


class Broken(BaseTopicPlugin):
    """Fails."""

    async def topic_filtering(
        self, *, session: Any = None, topic: Any = None, action: Any = None
    ) -> bool:
        raise RuntimeError("no database")


class Stuck(BaseAuthPlugin):
    """Never comes back from some of what it is told or asked."""

    at: ClassVar[set[str]] = set()

    async def _at(self, what: str) -> None:
        if what in self.at:
            await asyncio.Event().wait()

    async def authenticate(self, *, session: Any) -> bool:
        await self._at("authenticate")
        return True

    async def on_broker_pre_start(self) -> None:
        await self._at("pre start")

    async def on_broker_post_start(self) -> None:
        await self._at("post start")

    async def on_broker_client_connected(self, *, client_id: str, client_session: Any) -> None:
        await self._at("connected")

    async def on_broker_pre_shutdown(self) -> None:
        await self._at("pre shutdown")

    async def on_broker_post_shutdown(self) -> None:
        await self._at("post shutdown")

    async def close(self) -> None:
        await self._at("close")


class Particular(BasePlugin[Any]):
    """Needs an option."""

    @dataclass
    class Config:
        wanted: int


@pytest.fixture
async def start(tmp_path: Path) -> Any:
    """Start a broker with the plugins of a TOML text."""
    async with AsyncExitStack() as stack:

        async def started(toml: str, **options: Any) -> Bench:
            mqtt = parse(tmp_path, toml)
            bench = Bench(plugins=mqtt.plugins, **options)
            await bench.start()
            stack.push_async_callback(bench.stop)
            return bench

        yield started


def parse(folder: Path, toml: str) -> config.MqttSection:
    (folder / "tree.key").write_text("ab" * 32)
    path = folder / "gateway.toml"
    head = (
        f'[gateway]\nid = "gw"\nstate_dir = "{folder}"\nstatus_interval_s = 0\n'
        f'[tree]\nkey_file = "{folder}/tree.key"\ndiscovery = false\n'
    )
    path.write_text(head + toml)
    return config.load(path, config.GatewaySettings).mqtt


def users(folder: Path, **passwords: str) -> str:
    """A section for amqtt's password file plugin."""
    path = folder / "users"
    path.write_text("".join(f"{n}:{Argon2Hasher().hash(p)}\n" for n, p in passwords.items()))
    return (
        f'[mqtt.plugins."amqtt.plugins.authentication.FileAuthPlugin"]\npassword_file = "{path}"\n'
    )


TABOO = '[mqtt.plugins."amqtt.plugins.topic_checking.TopicTabooPlugin"]\n'
ACL = """
[mqtt.plugins."amqtt.plugins.topic_checking.TopicAccessControlListPlugin"]
publish_acl = {alice = ["a/#"]}
acl = {alice = ["a/+", "b"]}
"""


async def refusal(bench: Bench, **fields: Any) -> int:
    return await (await bench.open()).connect("x", **fields)


# -- authentication --------------------------------------------------------------------------------


async def test_amqtts_password_file_plugin_decides_who_comes_in(
    start: Start, tmp_path: Path
) -> None:
    bench = await start(users(tmp_path, alice="secret"))
    await bench.connect("a", username="alice", password=b"secret")
    assert await refusal(bench, username="alice", password=b"wrong") == WRONG
    assert await refusal(bench, username="bob", password=b"secret") == WRONG
    assert await refusal(bench) == REFUSED


async def test_a_name_that_a_plugin_has_checked_has_its_rules(start: Start, tmp_path: Path) -> None:
    policy = AccessPolicy(users={"alice": Rules(publish=("a",))})
    bench = await start(users(tmp_path, alice="secret"), policy=Policy(policy.told()))
    peer = await bench.connect("a", username="alice", password=b"secret")
    assert await peer.publish("a") == 0
    assert await peer.publish("b") == REFUSED


async def test_with_a_password_file_of_our_own_both_must_agree(
    start: Start, tmp_path: Path
) -> None:
    passwords = Passwords({n: Argon2Hasher().hash(n) for n in ("alice", "bob")})
    bench = await start(users(tmp_path, alice="alice"), passwords=passwords)
    await bench.connect("a", username="alice", password=b"alice")
    assert await refusal(bench, username="bob", password=b"bob") == WRONG


async def test_with_anonymous_clients_a_plugin_may_still_refuse(
    start: Start, tmp_path: Path
) -> None:
    bench = await start(users(tmp_path, alice="secret"), anonymous=True)
    await bench.connect("a")
    assert await refusal(bench, username="alice", password=b"wrong") == WRONG


async def test_guesses_at_a_plugins_passwords_are_limited_too(start: Start, tmp_path: Path) -> None:
    limits = Limits(failures_at_once=2, failures_per_s=0.001)
    bench = await start(users(tmp_path, alice="secret"), limits=limits)
    for _ in range(2):
        assert await refusal(bench, username="alice", password=b"wrong") == WRONG
    assert await refusal(bench, username="alice", password=b"secret") == WRONG
    assert bench.counts["authentication over the limit of an address"] == 1


async def test_a_plugin_that_makes_clients_anonymous_lets_nobody_in(start: Start) -> None:
    bench = await start(f'[mqtt.plugins."{HERE}.Lenient"]\n')
    assert await refusal(bench, username="alice", password=b"x") == WRONG
    assert await refusal(bench) == REFUSED


async def test_amqtts_plugin_for_anonymous_clients_is_refused(tmp_path: Path) -> None:
    name = "amqtt.plugins.authentication.AnonymousAuthPlugin"
    with pytest.raises(PluginConfigError, match=r"access\.anonymous"):
        await Bench(plugins={name: {}}).start()


# -- topics ----------------------------------------------------------------------------------------


async def test_amqtts_taboo_plugin_is_obeyed_in_publish_subscribe_delivery_and_wills(
    start: Start,
) -> None:
    bench = await start(TABOO, anonymous=True)
    peer = await bench.connect("a")
    assert await peer.publish("prohibited") == REFUSED
    assert await peer.publish("allowed") == 0
    assert await peer.subscribe("prohibited") == REFUSED
    assert await peer.subscribe("#") == 1
    admin = await bench.connect("b", username="admin")
    assert await admin.publish("prohibited") == 0  # so says the plugin
    bench.hand_out(Entry("prohibited", b"no", 1))
    bench.hand_out(Entry("allowed", b"yes", 1))
    assert (await peer.next()).payload == b"yes"
    await peer.nothing_came()
    assert [entry.topic for entry in bench.entries] == ["allowed", "prohibited"]


async def test_amqtts_list_of_topics_is_obeyed(start: Start, tmp_path: Path) -> None:
    bench = await start(users(tmp_path, alice="s", bob="s") + ACL)
    peer = await bench.connect("a", username="alice", password=b"s")
    assert await peer.publish("a/x") == 0
    assert await peer.publish("b") == REFUSED
    assert await peer.subscribe("b") == 1
    assert await peer.subscribe("c") == REFUSED
    other = await bench.connect("b", username="bob", password=b"s")
    assert await other.publish("a/x") == REFUSED
    assert await other.subscribe("b") == REFUSED


async def test_policy_and_plugins_must_both_allow(start: Start) -> None:
    policy = AccessPolicy(Rules(publish=("prohibited", "a"), subscribe=("prohibited", "a")))
    bench = await start(TABOO, anonymous=True, policy=Policy(policy.told()))
    peer = await bench.connect("a")
    for topic, reason in (("prohibited", REFUSED), ("b", REFUSED), ("a", 0)):
        assert await peer.publish(topic) == reason
    for topic, reason in (("prohibited", REFUSED), ("b", REFUSED), ("a", 1)):
        assert await peer.subscribe(topic) == reason


@pytest.mark.parametrize("plugin", [Slow, FailsLate])
async def test_a_plugin_that_takes_time_is_obeyed_in_delivery(
    start: Start, plugin: type[BaseTopicPlugin]
) -> None:
    bench = await start(f'[mqtt.plugins."{HERE}.{plugin.__name__}"]\n', anonymous=True)
    peer = await bench.connect("a")
    await peer.subscribe("#")
    first, handed_out = None, 0
    while not isinstance(first, Publish):
        for topic in ("closed", "open"):
            bench.hand_out(Entry(topic, b"%d" % handed_out, 0))
        handed_out += 1
        peer.send(PingReq())
        first = await peer.next()
    assert first.topic == "open"
    assert first.payload > b"0"  # the answer about the first message comes after it
    bench.hand_out(Entry("closed", b"x", 0))
    await peer.next()  # the answer to the last ping
    await peer.nothing_came()


async def test_a_plugin_that_fails_allows_nothing(start: Start) -> None:
    bench = await start(f'[mqtt.plugins."{HERE}.Broken"]\n', anonymous=True)
    peer = await bench.connect("a")
    assert await peer.publish("t") == REFUSED
    assert await peer.subscribe("t") == REFUSED


# -- events ----------------------------------------------------------------------------------------


async def test_an_event_plugin_is_told_of_clients_and_subscriptions(start: Start) -> None:
    Told.events.clear()
    bench = await start(f'[mqtt.plugins."{HERE}.Told"]\n', anonymous=True)
    assert Told.events == [("pre start",), ("post start",)]
    peer: Peer = await bench.connect("a", username="alice")
    await peer.subscribe("t")
    peer.send(Unsubscribe(2, ["t"], {}))
    await peer.next()
    peer.close()
    expected = [
        ("connected", "a", "alice"),
        ("subscribed", "a", "t", 1),
        ("unsubscribed", "a", "t"),
        ("disconnected", "a"),
    ]
    async with asyncio.timeout(LIMIT_S):
        while Told.events[2:] != expected:
            await asyncio.sleep(0.01)
    await bench.broker.shutdown()
    assert Told.events[6:] == [("pre shutdown",), ("post shutdown",), ("closed",)]


async def test_a_plugin_sees_sessions_subscriptions_and_retained_messages(start: Start) -> None:
    bench = await start(f'[mqtt.plugins."{HERE}.Looking"]\n', anonymous=True)
    seen = Looking.contexts[-1]
    assert (list(seen.sessions), seen.subscriptions) == ([], {})
    peer = await bench.connect("a", username="alice")
    await peer.subscribe("a/#")
    bench.hand_out(Entry("a/b", b"kept", 1, True))
    assert [session.username for session in seen.sessions] == ["alice"]
    assert seen.get_session("a").client_id == "a"
    assert seen.get_session("b") is None
    assert [(f, qos) for f, [(_, qos)] in seen.subscriptions.items()] == [("a/#", 1)]
    assert seen.retained_messages["a/b"].data == b"kept"


async def test_a_plugin_publishes_and_retains_for_clients_of_this_gateway(start: Start) -> None:
    bench = await start(f'[mqtt.plugins."{HERE}.Looking"]\n', anonymous=True)
    context = Looking.contexts[-1]
    peer = await bench.connect("a")
    assert await peer.subscribe("early") == 1
    assert (await peer.next()).payload == b"before it listened"
    await context.broadcast_message("live", b"before")
    await context.add_subscription("a", "live", 1)
    await context.broadcast_message("live", b"after", 1)
    received = await peer.next()
    assert (received.topic, received.payload, received.qos) == ("live", b"after", 1)
    with pytest.raises(LookupError, match="'b' has no session"):
        await context.add_subscription("b", "live", 1)
    assert bench.entries == []  # neither in the log nor on its way to other gateways


async def test_a_plugin_does_not_publish_statistics_beside_ours(start: Start) -> None:
    bench = await start(f'[mqtt.plugins."{HERE}.Looking"]\n', anonymous=True, sys_interval_s=60)
    context, topic = Looking.contexts[-1], "$SYS/broker/version"
    await context.retain_message(topic, b"amqtt")
    await context.broadcast_message(topic, b"amqtt")
    peer = await bench.connect("a")
    assert await peer.subscribe(topic) == 1
    assert (await peer.next()).payload.startswith(b"hedgerow version ")
    await peer.nothing_came()


async def test_amqtts_event_logger_loads(start: Start) -> None:
    section = '[mqtt.plugins."amqtt.plugins.logging_amqtt.EventLoggerPlugin"]\n'
    bench = await start(section, anonymous=True)
    peer = await bench.connect("a")
    peer.send(Publish("t", b"x", 0, False, False, None, {}))
    await peer.nothing_came()


# -- what is wrong ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "options", "why"),
    [
        ("no.such.Plugin", {}, "no.such.Plugin"),
        ("amqtt.plugins.authentication.NoSuch", {}, "NoSuch"),
        ("pathlib.Path", {}, "not a subclass"),
        ("noDots", {}, "noDots"),
        ("amqtt.plugins.authentication.FileAuthPlugin", {"pasword_file": "x"}, "pasword_file"),
        ("amqtt.plugins.authentication.FileAuthPlugin", {"password_file": "/none"}, "/none"),
        (f"{HERE}.Particular", {}, "wanted"),
        (f"{HERE}.Particular", {"wanted": "x"}, "wanted"),
    ],
)
async def test_a_plugin_that_can_t_be_used_is_named_in_one_line(
    name: str, options: dict[str, Any], why: str
) -> None:
    with pytest.raises(PluginConfigError, match=why) as caught:
        await Bench(plugins={name: options}).start()
    assert "\n" not in str(caught.value)


# -- plugins that never come back ------------------------------------------------------------------


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(amqtt_plugins, "EVENT_LIMIT_S", 0.1)
    yield
    Stuck.at.clear()


@pytest.mark.usefixtures("impatient")
async def test_a_plugin_that_hangs_at_the_start_is_told_of_in_one_line() -> None:
    Stuck.at.add("pre start")
    with pytest.raises(PluginConfigError, match=r"not come back from broker_pre_start within 0\.1"):
        await Bench(plugins={f"{HERE}.Stuck": {}}).start()


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    "at", ["post start", "connected", "pre shutdown", "post shutdown", "close"]
)
async def test_one_that_hangs_later_keeps_neither_clients_nor_the_end_waiting(
    at: str, caplog: pytest.LogCaptureFixture
) -> None:
    Stuck.at.add(at)
    bench = Bench(plugins={f"{HERE}.Stuck": {}}, anonymous=True)
    async with asyncio.timeout(LIMIT_S):
        await bench.start()
        await bench.connect("x")
        await bench.stop()
    assert "not come back" in caplog.text


@pytest.mark.usefixtures("impatient")
async def test_who_waits_for_a_plugin_that_never_decides_is_closed_in_the_time_of_a_connect() -> (
    None
):
    Stuck.at.add("authenticate")
    bench = Bench(plugins={f"{HERE}.Stuck": {}}, anonymous=True, limits=Limits(connect_s=0.3))
    await bench.start()
    async with asyncio.timeout(LIMIT_S):
        assert await (await bench.open()).connect("x") != 0
        await bench.stop()
    assert bench.counts["connection without CONNECT"] == 1
