"""Access rules at every place where they hold: CONNECT, publish, subscribe, delivery, wills."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest
from argon2 import PasswordHasher
from mqtt_peer import LIMIT_S, Bench

from gateway.broker.access.guard import Access
from gateway.broker.access.passwords import Passwords
from gateway.broker.limits import Limits
from gateway.mqtt import Disconnect, PingReq, PingResp, Publish, ReasonCode, Version, Will
from gateway.trust.policy import policy_file
from gateway.trust.policy.older import AccessPolicy, Rules
from gateway.trust.policy.policy import Policy
from tree_handler.batch import Entry

CHEAP = PasswordHasher(time_cost=1, memory_cost=64, parallelism=1)
HASHES = {name: CHEAP.hash(name) for name in ("alice", "bob", "#", "a/b")}
PASSWORDS = Passwords(HASHES)
REFUSED = ReasonCode.NOT_AUTHORIZED
KEPT: dict[str, Any] = {"clean_start": False, "properties": {17: 100}}

Start = Callable[..., Awaitable[Bench]]


@pytest.fixture
async def start() -> Any:
    async with AsyncExitStack() as stack:

        async def started(policy: AccessPolicy | Policy | None = None, **options: Any) -> Bench:
            control = Policy(policy.told()) if isinstance(policy, AccessPolicy) else policy
            bench = Bench(**{"passwords": PASSWORDS, "policy": control, **options})
            await bench.start()
            stack.push_async_callback(bench.stop)
            return bench

        yield started


def rules(**users: Rules) -> AccessPolicy:
    return AccessPolicy(users=users)


def who(name: str) -> dict[str, Any]:
    return {"username": name, "password": name.encode()}


def will(topic: str) -> Will:
    return Will(topic, b"gone", 1, False, {})


async def gone(bench: Bench, clients: int = 0) -> None:
    async with asyncio.timeout(LIMIT_S):
        while bench.broker.client_count > clients:
            await asyncio.sleep(0.01)


# -- CONNECT ---------------------------------------------------------------------------------------


async def test_by_default_nobody_comes_in(start: Start) -> None:
    bench = await start(passwords=None)
    for fields in ({}, who("alice")):
        peer = await bench.open()
        assert await peer.connect("a", **fields) in (REFUSED, ReasonCode.BAD_USER_NAME_OR_PASSWORD)


async def test_with_anonymous_clients_a_user_name_still_needs_its_password(start: Start) -> None:
    bench = await start(anonymous=True)
    await bench.connect("a")
    await bench.connect("b", **who("alice"))
    peer = await bench.open()
    refused = await peer.connect("c", username="alice", password=b"wrong")
    assert refused == ReasonCode.BAD_USER_NAME_OR_PASSWORD


async def test_a_user_name_that_nobody_has_checked_gives_no_rights(start: Start) -> None:
    policy = rules(alice=Rules(publish=("t/%u", "t")))
    bench = await start(policy, passwords=None, anonymous=True)
    peer = await bench.connect("a", **who("alice"))
    assert await peer.publish("t") == REFUSED
    assert await peer.publish("t/alice") == REFUSED


@pytest.mark.parametrize("version", [Version.V311, Version.V5])
async def test_an_address_that_guesses_passwords_has_to_wait(start: Start, version: int) -> None:
    bench = await start(limits=Limits(failures_at_once=3, failures_per_s=0.001))
    for _ in range(3):
        peer = await bench.open(version=version)
        assert await peer.connect("a", username="alice", password=b"guess") > 0
    kind = "authentication over the limit of an address"
    assert bench.counts[kind] == 0
    for _ in range(2):  # even with the right one
        peer = await bench.open(version=version)
        assert await peer.connect("a", **who("alice")) > 0
    assert bench.counts[kind] == 2


async def test_of_many_guesses_at_once_few_are_verified(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    verified: list[str] = []
    verify = Passwords.verify

    def counting(self: Passwords, user: str, password: bytes) -> bool:
        verified.append(user)
        return verify(self, user, password)

    monkeypatch.setattr(Passwords, "verify", counting)
    bench = await start(limits=Limits(failures_at_once=3, failures_per_s=0.001))
    peers = [await bench.open() for _ in range(20)]
    answers = await asyncio.gather(
        *(peer.connect(f"c{i}", username="alice", password=b"g") for i, peer in enumerate(peers))
    )
    assert all(answer > 0 for answer in answers)
    assert len(verified) <= 3 + 1  # two at a time


async def test_guesses_do_not_hold_back_clients_that_name_no_user(start: Start) -> None:
    bench = await start(anonymous=True, limits=Limits(failures_at_once=1, failures_per_s=0.001))
    peer = await bench.open()
    assert await peer.connect("a", username="alice", password=b"guess") > 0
    await bench.connect("b")


async def test_right_passwords_are_never_held_back(start: Start) -> None:
    bench = await start(limits=Limits(failures_at_once=3, failures_per_s=0.001))
    for i in range(10):
        await bench.connect(f"c{i}", **who("alice"))


CHIEF = """version = 1
[principals]
"user:alice" = ["chief"]
[roles.chief]
includes = ["admin"]
"""
FLOODED = Limits(connections=32, connections_per_user=32)


async def test_where_connections_are_full_an_operator_still_gets_in(start: Start) -> None:
    """One of 32 is for operators; who has said nothing yet makes room for them."""
    told = (
        'version = 1\n[principals]\n"user:alice" = ["chief"]\n[roles.chief]\nincludes = ["admin"]\n'
    )
    bench = await start(Policy(policy_file.parse(told, "access.toml")), limits=FLOODED)
    flood = [await bench.connect(f"b{number}", **who("bob")) for number in range(31)]
    one_more = await bench.open()
    assert await one_more.connect("b31", **who("bob")) == ReasonCode.QUOTA_EXCEEDED
    await gone(bench, 31)
    silent = await bench.open()
    await bench.connect("a", **who("alice"))
    assert await silent.next() is None
    assert await (await bench.open()).next() is None  # now there is none for anybody
    assert len(flood) == bench.broker.client_count - 1


async def test_where_nobody_is_an_operator_no_room_is_kept_free(start: Start) -> None:
    bench = await start(limits=FLOODED, anonymous=True)
    for number in range(32):
        await bench.connect(f"c{number}")


# -- publish, subscribe, delivery ------------------------------------------------------------------


async def test_a_publication_no_rule_allows_is_refused_and_goes_nowhere(start: Start) -> None:
    bench = await start(rules(alice=Rules(publish=("a/%u/+",), subscribe=("#",))))
    peer = await bench.connect("c", **who("alice"))
    await peer.subscribe("#")
    for topic in ("a/alice", "a/bob/x", "a/alice/x/y", "b"):
        assert await peer.publish(topic, retain=True) == REFUSED
        peer.send(Publish(topic, b"x", 0, False, False, None, {}))
    await peer.nothing_came()
    assert bench.entries == []
    assert not list(bench.broker.core.retention.match("#"))


async def test_a_subscription_is_granted_only_if_a_rule_covers_all_of_it(start: Start) -> None:
    bench = await start(rules(alice=Rules(subscribe=("a/+/x", "b/#"))))
    peer = await bench.connect("c", **who("alice"))
    for topic_filter in ("a/1/x", "a/+/x", "b", "b/#", "$share/g/b/+"):
        assert await peer.subscribe(topic_filter) == 1, topic_filter
    for topic_filter in ("#", "+/1/x", "a/#", "a/1/+", "+", "$share/g/#", "c", "$SYS/#"):
        assert await peer.subscribe(topic_filter) == REFUSED, topic_filter


async def test_what_may_not_be_delivered_is_not_whatever_the_subscription(start: Start) -> None:
    policy = rules(
        alice=Rules(subscribe=("#",), deliver=("open/#",)),
        bob=Rules(publish=("#",), subscribe=("#",)),
    )
    bench = await start(policy)
    bob = await bench.connect("b", **who("bob"))
    assert await bob.publish("secret", b"retained", retain=True) == 0
    alice = await bench.connect("a", **who("alice"))
    await alice.subscribe("#")
    assert await bob.publish("secret") == 0
    assert await bob.publish("open/x", b"seen") == 0
    bench.hand_out(Entry("secret", b"from another gateway", 1))
    assert (await alice.next()).payload == b"seen"
    await alice.nothing_came()


async def test_a_shared_subscription_passes_over_members_that_may_not_receive(
    start: Start,
) -> None:
    policy = rules(alice=Rules(subscribe=("#",), deliver=("open/#",)), bob=Rules(subscribe=("#",)))
    bench = await start(policy)
    alice = await bench.connect("a", **who("alice"))
    bob = await bench.connect("b", **who("bob"))
    for peer in (alice, bob):
        assert await peer.subscribe("$share/g/#") == 1
    for i in range(4):
        bench.hand_out(Entry("secret", b"%d" % i, 0))
    assert [(await bob.next()).payload for _ in range(4)] == [b"0", b"1", b"2", b"3"]
    await alice.nothing_came()


async def test_messages_that_wait_for_a_client_are_checked_as_well(start: Start) -> None:
    bench = await start(rules(alice=Rules(subscribe=("#",), deliver=("open/#",))))
    alice = await bench.connect("a", **who("alice"), **KEPT)
    await alice.subscribe("#")
    alice.close()
    await gone(bench)
    bench.hand_out(Entry("secret", b"no", 1))
    bench.hand_out(Entry("open/x", b"yes", 1))
    alice = await bench.connect("a", **who("alice"), **KEPT)
    assert (await alice.next()).payload == b"yes"
    await alice.nothing_came()


@pytest.mark.parametrize("policy", [None, rules(alice=Rules(publish=("#",), subscribe=("#",)))])
async def test_no_client_gets_at_topics_that_start_with_a_dollar(
    start: Start, policy: AccessPolicy | None
) -> None:
    bench = await start(policy)
    peer = await bench.connect("a", **who("alice"))
    for topic in ("$hedgerow/x", "$SYS/x", "$x"):
        assert await peer.publish(topic) == REFUSED
    for topic_filter in ("$hedgerow/#", "$share/g/$hedgerow/#", "$x", "$x/+"):
        assert await peer.subscribe(topic_filter) >= 0x80
    assert await peer.subscribe("#") == 1
    assert await peer.subscribe("+/x") == 1
    bench.hand_out(Entry("$SYS/x", b"statistics", 0, True))
    await peer.nothing_came()
    assert bench.entries == []


async def test_statistics_are_read_where_a_rule_names_them_or_there_is_no_policy(
    start: Start,
) -> None:
    policy = AccessPolicy(Rules(subscribe=("#",)), users={"alice": Rules(subscribe=("$SYS/#",))})
    for bench, readers in ((await start(policy), {"alice"}), (await start(), {"alice", "bob"})):
        for name in ("alice", "bob"):
            peer = await bench.connect(name, **who(name))
            assert (await peer.subscribe("$SYS/#") == 1) == (name in readers)
            bench.hand_out(Entry("$SYS/x", b"statistics", 0))
            if name in readers:
                assert (await peer.next()).topic == "$SYS/x"
            await peer.nothing_came()


@pytest.mark.parametrize("client_id", ["#", "+", "a/b", "$SYS", "x/#", "+/+"])
async def test_a_client_identifier_never_widens_a_rule(start: Start, client_id: str) -> None:
    bench = await start(rules(alice=Rules(publish=("of/%c/#",), subscribe=("of/%c/#", "%c/#"))))
    peer = await bench.connect(client_id, **who("alice"))
    for topic in (
        "of/x",
        "of/a/b",
        "of/x/y",
        f"of/{client_id}".replace("#", "h").replace("+", "p"),
    ):
        assert await peer.publish(topic) == REFUSED
    for topic_filter in ("of/#", "of/+/x", f"of/{client_id}", "#", "+/#", "$SYS/#", "a/b/#"):
        assert await peer.subscribe(topic_filter) >= 0x80
    bench.hand_out(Entry("of/x", b"x", 0))
    await peer.nothing_came()


@pytest.mark.parametrize("user", ["#", "a/b"])
async def test_a_user_name_never_widens_a_rule(start: Start, user: str) -> None:
    bench = await start(AccessPolicy(Rules(publish=("of/%u/#",), subscribe=("of/%u/#", "%u"))))
    peer = await bench.connect("c", **who(user))
    assert await peer.publish("of/x") == REFUSED
    assert await peer.publish("of/a/b/c") == REFUSED
    for topic_filter in ("of/#", "#", "of/a/b/#", "a/b"):
        assert await peer.subscribe(topic_filter) == REFUSED
    ordinary = await bench.connect("d", **who("alice"))
    assert await ordinary.publish("of/alice/x") == 0


@pytest.mark.parametrize("version", [Version.V311, Version.V5])
@pytest.mark.parametrize("topic", ["b", "of/other", "$hedgerow/x"])
async def test_a_client_whose_will_no_rule_allows_is_refused(
    start: Start, version: int, topic: str
) -> None:
    bench = await start(rules(alice=Rules(publish=("of/%c",))))
    peer = await bench.open(version=version)
    reason = await peer.connect("me", **who("alice"), will=will(topic))
    assert reason == REFUSED
    peer = await bench.open(version=version)
    assert await peer.connect("me", **who("alice"), will=will("of/me")) == 0
    peer.close()
    async with asyncio.timeout(LIMIT_S):
        while not bench.entries:
            await asyncio.sleep(0.01)
    assert [entry.topic for entry in bench.entries] == ["of/me"]


# -- files that are read again ---------------------------------------------------------------------


def revise(
    bench: Bench, policy: AccessPolicy | None = None, passwords: Passwords | None = PASSWORDS
) -> None:
    control = None if policy is None else Policy(policy.told())
    bench.broker.revise(Access(passwords, control))


async def test_a_policy_that_is_read_again_holds_for_those_who_are_there(start: Start) -> None:
    wide = rules(alice=Rules(publish=("#",), subscribe=("#",)))
    bench = await start(wide)
    peer = await bench.connect("a", **who("alice"))
    await peer.subscribe("open/#")
    await peer.subscribe("closed")
    for topic in ("open/x", "closed"):  # so that the decisions are remembered
        peer.send(Publish(topic, b"x", 0, False, False, None, {}))
        assert (await peer.next()).topic == topic
    revise(bench, rules(alice=Rules(publish=("open/#",), subscribe=("open/#",))))
    peer.send(Publish("closed", b"x", 0, False, False, None, {}))
    assert await peer.publish("closed") == REFUSED
    bench.hand_out(Entry("closed", b"x", 1))
    peer.send(Publish("open/x", b"y", 0, False, False, None, {}))
    assert (await peer.next()).payload == b"y"
    assert bench.entries[-1].topic == "open/x"
    revise(bench, wide)
    assert await peer.publish("closed") == 0


async def test_subscriptions_that_no_rule_covers_any_more_end(start: Start) -> None:
    bench = await start(rules(alice=Rules(subscribe=("#",), deliver=("#",))))
    peer = await bench.connect("a", **who("alice"))
    for topic_filter in ("#", "a", "$share/g/#", "$share/g/a"):
        await peer.subscribe(topic_filter)
    revise(bench, rules(alice=Rules(subscribe=("a",), deliver=("#",))))
    (session,) = bench.broker.core.sessions.values()
    assert set(session.subscriptions) == {"a", "$share/g/a"}
    bench.hand_out(Entry("b", b"x", 0))
    await peer.nothing_came()


async def test_a_will_that_no_rule_allows_any_more_is_dropped(start: Start) -> None:
    bench = await start(rules(alice=Rules(publish=("w",))))
    peer = await bench.connect("a", **who("alice"), will=will("w"))
    delayed = Will("w", b"later", 1, False, {24: 100})
    other = await bench.connect("b", **who("alice"), will=delayed, **KEPT)
    other.close()
    await gone(bench, 1)
    revise(bench, rules(alice=Rules(publish=("other",))))
    peer.close()
    await gone(bench)
    assert bench.entries == []
    assert all(session.will is None for session in bench.broker.core.sessions.values())


@pytest.mark.parametrize("now", [{}, {"alice": "another password"}])
async def test_a_user_that_is_revoked_is_disconnected_and_its_will_dropped(
    start: Start, now: dict[str, str]
) -> None:
    bench = await start()
    alice = await bench.connect("a", **who("alice"), will=will("w"))
    bob = await bench.connect("b", **who("bob"))
    hashes = {name: CHEAP.hash(password) for name, password in now.items()}
    revise(bench, passwords=Passwords({"bob": HASHES["bob"], **hashes}))
    farewell = await alice.next()
    assert isinstance(farewell, Disconnect)
    assert farewell.reason == REFUSED
    await bob.nothing_came()
    await gone(bench, 1)
    assert bench.entries == []
    peer = await bench.open()
    assert await peer.connect("a", **who("alice")) == ReasonCode.BAD_USER_NAME_OR_PASSWORD
    assert bench.counts["client that may not stay"] == 1


async def test_a_password_that_was_being_verified_by_the_old_file_lets_nobody_in(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()
    begun, may_end = asyncio.Event(), asyncio.Event()

    def slow(self: Passwords, user: str, password: bytes) -> bool:
        loop.call_soon_threadsafe(begun.set)
        asyncio.run_coroutine_threadsafe(may_end.wait(), loop).result(LIMIT_S)
        return True

    monkeypatch.setattr(Passwords, "verify", slow)
    bench = await start()
    peer = await bench.open()
    connecting = asyncio.create_task(peer.connect("a", **who("alice")))
    await begun.wait()
    revise(bench, passwords=Passwords({}))
    may_end.set()
    assert await connecting == -1
    assert bench.broker.client_count == 0


async def test_where_identifiers_are_bound_nobody_takes_one_of_another_user(start: Start) -> None:
    bench = await start(rules())
    bench.broker.revise(Access(PASSWORDS, None, None, binds_client_ids=True))
    for client_id in ("alice", "alice:", "alice:phone", ""):
        peer = await bench.open()
        assert await peer.connect(client_id, **who("alice")) == 0
    for client_id in ("bob", "alic", "alice2", "alice-phone", "bob:alice", "Alice"):
        peer = await bench.open()
        assert await peer.connect(client_id, **who("alice")) == ReasonCode.BAD_USER_NAME_OR_PASSWORD
    assert bench.counts["client identifier that is not its user's"] == 6


async def test_a_client_that_sends_more_behind_its_connect_is_let_in_however_long_that_takes(
    start: Start,
) -> None:
    bench = await start(rules())
    bench.broker.core.service.user_turns.part_s = -1.0  # all takes longer than its part
    peer = await bench.open()
    assert await peer.connect("alice", PingReq(), **who("alice")) == 0
    assert isinstance(await peer.next(), PingResp)
