"""Two gateways compare their retained topics and fetch what they lack."""

from __future__ import annotations

import contextlib
from collections import deque
from dataclasses import dataclass, field

import msgpack
import pytest
from compiled_sources import is_compiled
from hypothesis import given, settings
from hypothesis import strategies as st

from tree_handler.errors import ProtocolError
from tree_handler.proof import Verdict
from tree_handler.replication.repair import Epoch
from tree_handler.retained import proof as proof_module
from tree_handler.retained.hybrid_clock import RetainedVersion
from tree_handler.retained.left_to_log import PATIENCE_S
from tree_handler.retained.message import Retained
from tree_handler.retained.proof import OWN, RetainedProofs
from tree_handler.retained.sync import (
    ANSWER_BYTES,
    ANSWER_PROVEN,
    ASK_TIMEOUT_S,
    UNSETTLED_S,
    RetainedSync,
)
from tree_handler.retained.sync_state import (
    LATE_AGAIN_S,
    MAX_FRUITLESS,
    REFUSED_AGAIN_S,
    SendRetained,
)
from tree_handler.retained.sync_wire import ASK_TOPICS, END, START, SyncKind, Wants, pack
from tree_handler.retained.tombstones import Tombstone
from tree_handler.retained.versions import BUCKETS, HASH_BYTES, RetainedVersions
from tree_handler.simulation.model_keys import ModelRing, ModelSigner


class Log:
    """A log that has brought all it can, unless a test says otherwise."""

    def __init__(self) -> None:
        self.out: dict[Epoch, int] = {}
        self.coming: set[tuple[Epoch, int]] = set()
        self.catching_up = False

    def handed_out(self, stream: Epoch) -> int:
        return self.out.get(stream, 1 << 60)

    def may_come(self, stream: Epoch, number: int) -> bool:
        return (stream, number) in self.coming

    def is_catching_up(self) -> bool:
        return self.catching_up


@dataclass
class Store:
    """Retained messages in memory, and what subscribers were told."""

    versions: RetainedVersions = field(default_factory=RetainedVersions)
    contents: dict[str, Retained] = field(default_factory=dict)
    news: list[str] = field(default_factory=list)
    room: int = 1 << 30
    silenced: set[str] = field(default_factory=set)
    """Origins that may have nothing retained here."""

    def may_speak(self, retained: Retained) -> bool:
        return retained.version.origin not in self.silenced

    def told(self, topic: str, now: float) -> Retained | None:
        dead = self.versions.tombstone(topic)
        if dead is None:
            return self.contents.get(topic)
        age_s = now - dead.since_s
        return Retained(topic, dead.version, dead.number, dead.qos, b"", {}, None, age_s)

    def learn(self, retained: Retained, now: float, *, is_news: bool) -> bool:
        if retained.dead_s is None:
            if retained.topic not in self.contents and len(self.contents) >= self.room:
                return False
            self.versions.set(retained.topic, retained.version, retained.proof)
            self.contents[retained.topic] = retained
        else:
            since_s = now - retained.dead_s
            dead = Tombstone(retained.version, retained.number, retained.qos, since_s)
            self.versions.bury(retained.topic, dead, now, retained.proof)
            self.contents.pop(retained.topic, None)
        if is_news:
            self.news.append(retained.topic)
        return True

    def announce(self, topic: str, now: float) -> None:
        self.news.append(topic)

    def put(
        self,
        topic: str,
        version: RetainedVersion,
        payload: bytes,
        now: float = 0.0,
        proof: bytes = b"",
    ) -> None:
        dead_s = None if payload else 0.0
        told = Retained(topic, version, version.logical + 1, 1, payload, {}, None, dead_s, proof)
        if self.versions.is_news(topic, version):
            self.learn(told, now, is_news=False)


class Pair:
    """Two gateways with a link, 1, between them.

    Args:
        proofs: of each, where they sign.

    """

    def __init__(
        self, proofs: tuple[RetainedProofs | None, RetainedProofs | None] = (None, None)
    ) -> None:
        self.stores = Store(), Store()
        self.logs = Log(), Log()
        self.sides = [
            RetainedSync(store, log, proofs=of)
            for store, log, of in zip(self.stores, self.logs, proofs, strict=True)
        ]
        self.now = 0.0
        self.waited_s = 0.0
        """The time that each message is under way."""
        self.sent: list[bytes] = []
        self._wire: deque[tuple[int, bytes]] = deque()

    def up(self) -> None:
        for side in self.sides:
            side.link_up(1, self.now)

    def run_once(self) -> None:
        """Let the next message arrive, or else time pass to the next timer."""
        if self._wire:
            to, payload = self._wire.popleft()
            self._carry(to, self.sides[to].receive(1, payload, self.now, self.waited_s))
            return
        self.now = min(side.next_timer() for side in self.sides)
        for at, side in enumerate(self.sides):
            self._carry(at, side.handle_timer(self.now))

    def run(self, for_s: float = 30.0) -> None:
        """Until nothing is on its way and no timer is due in time."""
        until = self.now + for_s
        while True:
            while self._wire:
                to, payload = self._wire.popleft()
                self._carry(to, self.sides[to].receive(1, payload, self.now, self.waited_s))
            self.now = min(side.next_timer() for side in self.sides)
            if self.now > until:
                self.now = until
                return
            for at, side in enumerate(self.sides):
                self._carry(at, side.handle_timer(self.now))

    def _carry(self, at: int, sends: list[SendRetained]) -> None:
        for send in sends:
            assert send.link == 1
            self.sent.append(send.payload)
            self._wire.append((1 - at, send.payload))

    def are_equal(self) -> bool:
        one, other = self.stores
        return one.versions.state() == other.versions.state() and {
            topic: told.payload for topic, told in one.contents.items()
        } == {topic: told.payload for topic, told in other.contents.items()}


def test_a_fetch_ends_with_its_link_alone_and_a_quarter_second_later_others_are_looked_at() -> None:
    pair = Pair()
    pair.stores[1].put("t", RetainedVersion(1, 0, "a", 1), b"x")
    pair.up()
    side = pair.sides[0]
    while not side.is_fetching:
        pair.run_once()
    side.link_up(2, pair.now)
    side.link_down(2, pair.now)
    assert side.is_fetching
    side.link_down(1, pair.now)
    assert not side.is_fetching
    assert side.next_timer() == pair.now + 0.25
    side.handle_timer(pair.now + 0.25)
    side.link_up(3, 99.0)
    assert side.next_timer() == 99.25


versions = st.builds(
    RetainedVersion, st.integers(0, 5), st.integers(0, 5), st.sampled_from("abc"), st.integers(1, 2)
)
updates = st.lists(st.tuples(st.sampled_from([f"t/{i}" for i in range(20)]), versions), max_size=60)


def payload_of(topic: str, version: RetainedVersion) -> bytes:
    return b"" if version.logical == 2 else f"{topic} {version}".encode()


@settings(max_examples=150)
@given(updates, updates)
def test_two_states_that_differ_anyhow_end_equal_in_a_bounded_number_of_messages(
    some: list[tuple[str, RetainedVersion]], others: list[tuple[str, RetainedVersion]]
) -> None:
    pair = Pair()
    for store, all_updates in zip(pair.stores, (some, others), strict=True):
        for topic, version in all_updates:
            store.put(topic, version, payload_of(topic, version))
    pair.up()
    pair.run()
    assert pair.are_equal()
    # A root each at first and when it has changed, digests, and one question each.
    assert len(pair.sent) <= 4 + 8 + 4


def test_versions_that_differ_by_the_epoch_alone_differ_and_the_later_life_wins() -> None:
    """A gateway lost its disk and its clock, and wrote again what differs by its epoch alone."""
    pair = Pair()
    for epoch, store in enumerate(pair.stores, 1):
        store.put("t", RetainedVersion(1, 0, "a", epoch), b"of life %d" % epoch)
    assert pair.stores[0].versions.root() != pair.stores[1].versions.root()
    pair.up()
    pair.run()
    assert pair.are_equal()
    assert pair.stores[0].contents["t"].payload == b"of life 2"


def test_where_nothing_differs_two_hashes_are_all_that_is_said() -> None:
    pair = Pair()
    for store in pair.stores:
        store.put("t", RetainedVersion(1, 0, "a", 1), b"x")
    pair.up()
    pair.run(3600)
    assert len(pair.sent) == 2
    assert sum(map(len, pair.sent)) < 30


def test_a_gateway_with_nothing_fetches_everything_in_bounded_pieces() -> None:
    pair = Pair()
    for at in range(3_000):
        pair.stores[0].put(f"site/{at}", RetainedVersion(1, at, "a", 1), b"x" * 200)
    pair.up()
    pair.run()
    assert pair.are_equal()
    assert len(pair.stores[1].news) == 3_000
    assert max(map(len, pair.sent)) < 2 * ANSWER_BYTES
    assert len(pair.sent) < 60


def test_two_gateways_with_many_topics_that_differ_in_one_do_not_list_them_all() -> None:
    pair = Pair()
    for store in pair.stores:
        for at in range(20_000):
            store.put(f"site/{at}", RetainedVersion(1, at, "a", 1), b"x")
    pair.stores[0].put("site/7", RetainedVersion(2, 0, "b", 1), b"new")
    pair.up()
    pair.run()
    assert pair.are_equal()
    assert pair.stores[1].news == ["site/7"]
    assert sum(map(len, pair.sent)) < 40_000


def test_a_long_list_of_topics_is_asked_about_in_pieces() -> None:
    pair = Pair()
    for at in range(3 * ASK_TOPICS):
        pair.stores[1].put(f"site/{at}", RetainedVersion(1, at, "a", 1), b"x")
        pair.stores[0].put(
            f"site/{at}",
            RetainedVersion(1, at, "a", 1) if at else RetainedVersion(9, 0, "b", 1),
            b"x",
        )
        pair.stores[0].put(f"other/{at}", RetainedVersion(1, at, "a", 1), b"x")
    pair.up()
    pair.run()
    assert pair.are_equal()


def test_what_changes_while_a_link_is_up_is_compared_when_it_has_settled() -> None:
    pair = Pair()
    pair.up()
    pair.run()
    pair.stores[0].put("t", RetainedVersion(1, 0, "a", 1), b"x")
    pair.run()
    assert pair.are_equal()
    said = len(pair.sent)
    pair.run(3600)
    assert len(pair.sent) == said


def test_nothing_is_compared_while_the_log_catches_up() -> None:
    pair = Pair()
    pair.stores[0].put("t", RetainedVersion(1, 0, "a", 1), b"x")
    for log in pair.logs:
        log.catching_up = True
    pair.up()
    pair.run()
    assert pair.sent == []
    for log in pair.logs:
        log.catching_up = False
    pair.run()
    assert pair.are_equal()


def test_what_the_log_may_still_bring_is_left_to_it_until_it_is_given_up() -> None:
    pair = Pair()
    log = pair.logs[1]
    pair.stores[0].put("t", RetainedVersion(1, 0, "a", 1), b"x")
    stream = ("a", 1)
    log.out[stream] = 0
    log.coming.add((stream, 1))
    pair.up()
    pair.run(PATIENCE_S - 1)
    assert pair.stores[1].contents == {}
    log.out[stream] = 1  # the log gave it up
    pair.run()
    assert pair.are_equal()
    assert pair.stores[1].news == ["t"]


def test_what_waits_behind_a_gap_that_does_not_close_is_retained_and_no_news() -> None:
    pair = Pair()
    pair.stores[0].put("t", RetainedVersion(1, 0, "a", 1), b"x")
    pair.logs[1].out["a", 1] = 0
    pair.logs[1].coming.add((("a", 1), 1))
    pair.up()
    pair.run(60)
    assert pair.are_equal()
    assert pair.stores[1].news == []
    said = len(pair.sent)
    pair.run(3600)
    assert len(pair.sent) == said


def test_what_nobody_in_reach_can_send_is_retained_and_no_news() -> None:
    pair = Pair()
    pair.logs[1].out[("a", 1)] = 0
    pair.stores[0].put("t", RetainedVersion(1, 0, "a", 1), b"x")
    pair.up()
    pair.run()
    assert pair.are_equal()
    assert pair.stores[1].news == []


def test_what_was_retained_silently_is_news_when_the_log_gives_it_up() -> None:
    pair = Pair()
    pair.logs[1].out["a", 1] = 0
    pair.stores[0].put("t", RetainedVersion(1, 0, "a", 1), b"x")
    pair.up()
    pair.run()
    assert pair.stores[1].news == []
    pair.logs[1].out["a", 1] = 1
    pair.run()
    assert pair.stores[1].news == ["t"]


def test_a_deletion_comes_with_its_age_and_goes_on_both_sides_at_its_time() -> None:
    pair = Pair()
    pair.now = 1000.0
    pair.stores[0].put("t", RetainedVersion(1, 0, "a", 1), b"", now=400.0)
    pair.stores[1].put("t", RetainedVersion(0, 5, "b", 1), b"x", now=400.0)
    pair.up()
    pair.run()
    assert pair.are_equal()
    dead = pair.stores[1].versions.tombstone("t")
    assert dead is not None
    assert dead.since_s == pytest.approx(400.0, abs=0.01)


def test_what_a_message_and_a_deletion_wait_under_way_counts() -> None:
    pair = Pair()
    pair.now, pair.waited_s = 1000.0, 40.0
    pair.stores[0].put("gone", RetainedVersion(1, 0, "a", 1), b"", now=400.0)
    pair.stores[0].put("for ever", RetainedVersion(1, 0, "a", 1), b"x")
    for topic, left_s in (("short", 6.0), ("long", 100.0)):
        version = RetainedVersion(1, 1, "a", 1)
        told = Retained(topic, version, 2, 1, b"x", {}, left_s)
        pair.stores[0].learn(told, pair.now, is_news=False)
    pair.up()
    pair.run()
    found = {topic: told.left_s for topic, told in pair.stores[1].contents.items()}
    assert found == {"for ever": None, "short": 0.0, "long": 60.0}
    dead = pair.stores[1].versions.tombstone("gone")
    assert dead is not None
    assert dead.since_s == pytest.approx(360.0, abs=0.01)


def test_over_a_limit_only_topics_that_are_known_are_fetched() -> None:
    pair = Pair()
    pair.stores[1].room = 2
    pair.stores[1].put("known", RetainedVersion(1, 0, "a", 1), b"old")
    for at in range(50):
        pair.stores[0].put(f"t/{at}", RetainedVersion(1, at, "a", 1), b"x")
    pair.up()
    pair.run()
    assert len(pair.stores[1].contents) == 2
    assert pair.sides[1].counters.refused
    pair.stores[0].put("known", RetainedVersion(2, 0, "a", 1), b"new")
    pair.run(60)
    assert pair.stores[1].contents["known"].payload == b"new"
    said = len(pair.sent)
    pair.run(24 * 3600)
    assert len(pair.sent) - said <= 6 * (24 + 7)  # each time later, once an hour at last


def test_what_its_origin_may_not_have_retained_is_not_fetched_and_all_else_is() -> None:
    pair = Pair()
    pair.stores[1].silenced.add("thief")
    for at in range(200):
        origin = "thief" if at % 2 else "a"
        pair.stores[0].put(f"t/{at}", RetainedVersion(1, at, origin, 1), b"x")
    pair.up()
    pair.run()
    assert sorted(pair.stores[1].contents) == sorted(f"t/{at}" for at in range(0, 200, 2))
    assert pair.sides[1].counters.forbidden >= 100
    said = len(pair.sent)
    pair.run(24 * 3600)
    assert len(pair.sent) - said <= 6 * (24 + 7)  # each time later, once an hour at last
    pair.stores[1].silenced.clear()  # the policy was read again
    pair.run(4 * 3600)
    assert len(pair.stores[1].contents) == 200


def test_what_a_limit_kept_out_for_a_while_comes_when_there_is_room() -> None:
    pair = Pair()
    pair.stores[1].room = 2
    for at in range(9):
        pair.stores[0].put(f"t/{at}", RetainedVersion(1, at, "a", 1), b"x")
    pair.up()
    pair.run()
    assert len(pair.stores[1].contents) == 2
    pair.stores[1].room = 9
    pair.run(2 * REFUSED_AGAIN_S)
    assert pair.are_equal()


def test_where_something_changes_all_the_time_a_neighbour_is_told_within_a_stated_time() -> None:
    pair = Pair()
    pair.up()
    pair.run()
    pair.stores[0].put("once", RetainedVersion(1, 0, "a", 1), b"trimmed from all logs")
    for at in range(1, 1 + int(UNSETTLED_S // 3) + 2):
        for store in pair.stores:
            store.put("often", RetainedVersion(1, at, "b", 1), b"by the log")
        pair.run(3.0)
    assert "once" in pair.stores[1].contents


def test_where_something_changes_all_the_time_roots_are_told_no_more_often_than_that() -> None:
    pair = Pair()
    pair.up()
    pair.run()
    said = len(pair.sent)
    for at in range(1, 1_200):
        for store in pair.stores:
            store.put("often", RetainedVersion(1, at, "b", 1), b"by the log")
        pair.run(3.0)
    assert len(pair.sent) - said <= 2 * (3_600 / UNSETTLED_S + 1)


class Slow:
    """A gateway that asks, and a neighbour that has one message; a test hands over what is said."""

    def __init__(self) -> None:
        self.store, self.other = Store(), Store()
        self.other.put("t", RetainedVersion(1, 0, "a", 1), b"large")
        self.side = RetainedSync(self.store, Log())
        self.neighbour = RetainedSync(self.other, Log())
        self.side.link_up(1, 0.0)
        self.neighbour.link_up(1, 0.0)
        (root,) = self.neighbour.handle_timer(1.0)
        self.side.receive(1, root.payload, 1.0)
        digest = self.side.handle_timer(2.0)[-1]
        answered = self.neighbour.receive(1, digest.payload, 2.0)[0]
        (ask,) = self.side.receive(1, answered.payload, 2.0)
        (self.answer,) = self.neighbour.receive(1, ask.payload, 2.0)


def test_an_answer_that_takes_long_is_taken_when_it_comes() -> None:
    slow = Slow()
    for now in range(3, 3 + 2 * int(ASK_TIMEOUT_S)):
        assert not slow.side.handle_timer(float(now))
    slow.side.receive(1, slow.answer.payload, 100.0)
    assert slow.store.contents["t"].payload == b"large"


def test_who_does_not_answer_is_asked_again_after_a_while_and_ever_more_seldom() -> None:
    slow = Slow()
    asked = []
    for now in range(3, 24 * 3600, 5):
        for send in slow.side.handle_timer(float(now)):
            for digest in slow.neighbour.receive(1, send.payload, float(now)):
                asked += [now for _ in slow.side.receive(1, digest.payload, float(now))]
    assert asked
    assert LATE_AGAIN_S < asked[0] < 3 * LATE_AGAIN_S
    assert 4 < len(asked) < 30


def test_the_answer_to_what_was_given_up_is_not_taken_for_that_to_a_later_question() -> None:
    slow = Slow()
    second: list[SendRetained] = []
    now = 3.0
    while not second:
        now += 5.0
        for send in slow.side.handle_timer(now):
            for digest in slow.neighbour.receive(1, send.payload, now):
                second += slow.side.receive(1, digest.payload, now)
    (answer,) = slow.neighbour.receive(1, second[0].payload, now)
    assert slow.side.receive(1, slow.answer.payload, now) == []
    assert slow.side.is_fetching
    assert slow.side.receive(1, answer.payload, now) == []
    assert not slow.side.is_fetching


def test_tombstones_beyond_their_number_are_not_fetched_again_and_again() -> None:
    pair = Pair()
    pair.stores[1].versions = RetainedVersions(tombstones_max=3)
    pair.sides[1] = RetainedSync(pair.stores[1], pair.logs[1])
    for at in range(10):
        pair.stores[0].put(f"t/{at}", RetainedVersion(1, at, "a", 1), b"")
    pair.up()
    pair.run(60)
    said = len(pair.sent)
    pair.run(3600)
    assert len(pair.sent) == said


def test_old_tombstones_of_which_each_side_has_others_end_the_same_and_then_it_is_still() -> None:
    pair = Pair()
    for at, store in enumerate(pair.stores):
        store.versions = RetainedVersions(tombstones_max=30)
        pair.sides[at] = RetainedSync(store, pair.logs[at])
    year_s = 365 * 24 * 3600.0
    for at in range(6):
        store = pair.stores[at % 2]
        store.put(f"t/{at}", RetainedVersion(1, at, "a", 1), b"", -year_s)
    for _ in range(10):
        for store in pair.stores:
            store.versions.expire(pair.now)
        pair.up()
        pair.run(60)
    one, other = (store.versions.state() for store in pair.stores)
    assert one == other
    assert sorted(one) == ["t/3", "t/4", "t/5"]
    said = len(pair.sent)
    pair.run(24 * 3600)
    assert len(pair.sent) == said


def test_a_link_that_ends_within_a_piece_leaves_nothing_behind() -> None:
    pair = Pair()
    for at in range(3_000):
        pair.stores[0].put(f"site/{at}", RetainedVersion(1, at, "a", 1), b"x" * 200)
    one, other = pair.sides
    one.link_up(1, 0.0)
    other.link_up(1, 0.0)
    [root] = one.handle_timer(1.0)
    other.receive(1, root.payload, 1.0)
    [_, wanted] = other.handle_timer(2.0)
    digest, _ = one.receive(1, wanted.payload, 2.0)
    [ask] = other.receive(1, digest.payload, 2.0)
    one.link_down(1, 3.0)
    other.link_down(1, 3.0)
    assert one.receive(1, ask.payload, 3.0) == []
    pair.up()
    pair.run()
    assert pair.are_equal()


@given(st.binary(max_size=200))
def test_any_bytes_are_a_message_or_a_protocol_error(payload: bytes) -> None:
    pair = Pair()
    pair.up()
    with contextlib.suppress(ProtocolError):
        pair.sides[0].receive(1, payload, 0.0)


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 1 << 63)
    | st.text(max_size=3)
    | st.binary(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=12) | st.dictionaries(st.integers(-2, 99), inner, max_size=2)
    ),
    max_leaves=20,
)


@given(st.integers(0, 4), st.lists(values, max_size=6))
def test_any_values_are_a_message_or_a_protocol_error(kind: int, fields: list[object]) -> None:
    pair = Pair()
    pair.up()
    with contextlib.suppress(ProtocolError):
        pair.sides[0].receive(1, msgpack.packb([kind, *fields]), 0.0)


def proofs(gateway_id: str, ring: ModelRing | None = None) -> RetainedProofs:
    return RetainedProofs(ModelSigner(gateway_id), ring or ModelRing(), "t")


def signed(topic: str, version: RetainedVersion, payload: bytes) -> bytes:
    """Return the proof of a message that `Store.put` puts there."""
    dead_s = None if payload else 0.0
    told = Retained(topic, version, version.logical + 1, 1, payload, {}, None, dead_s)
    (proven,) = proofs(version.origin).prove([told])
    return proven.proof


@given(updates, updates)
@settings(max_examples=50)
def test_what_is_proven_is_alike_everywhere_in_the_end(
    one: list[tuple[str, RetainedVersion]], other: list[tuple[str, RetainedVersion]]
) -> None:
    pair = Pair((proofs("a"), proofs("b")))
    for store, own_id, some in zip(pair.stores, "ab", (one, other), strict=True):
        for topic, version in some:
            payload = payload_of(topic, version)
            is_own = version.origin == own_id
            proof = OWN if is_own else signed(topic, version, payload)
            store.put(topic, version, payload, proof=proof)
    pair.up()
    pair.run()
    assert pair.are_equal()
    assert not any(side.counters.unproven for side in pair.sides)
    assert not any(store.versions.unproven for store in pair.stores)


@pytest.mark.parametrize("payload", [b"", b"open"])
def test_what_nobody_wrote_is_not_taken_of_a_stolen_gateway(payload: bytes) -> None:
    if is_compiled(proof_module):
        pytest.skip("derives from what is compiled here")
    pair = Pair((proofs("a"), _Forging("x")))  # it hands on whatever it has
    a, thief = pair.stores
    true, later = RetainedVersion(1, 0, "c", 1), RetainedVersion(9, 0, "c", 1)
    a.put("door", true, b"shut", proof=signed("door", true, b"shut"))
    for topic, proof in (
        ("door", b"no proof"),
        ("door/2", signed("door/2", true, b"shut")),  # of another version
        ("door/3", signed("door", later, payload)),  # of another topic
        ("door/4", OWN),
    ):
        thief.put(topic, later, payload, proof=proof)
    pair.up()
    pair.run()
    assert a.versions.state() == {"door": true}
    assert a.contents["door"].payload == b"shut"
    refused = pair.sides[0].take_refused()
    assert pair.sides[0].counters.unproven == len(refused)
    assert {one.retained.topic for one in refused} == {"door", "door/2", "door/3", "door/4"}
    assert not pair.sides[0].take_refused()


class _Forging(RetainedProofs):
    """Signs with its own key whatever it is asked to, and believes everything."""

    def __init__(self, gateway_id: str) -> None:
        super().__init__(ModelSigner(gateway_id), ModelRing(), "t")

    def check(self, told: Retained) -> Verdict:
        return Verdict.PROVEN


def test_a_true_message_is_harmless_again_and_can_not_take_back_a_newer_one() -> None:
    pair = Pair((proofs("a"), proofs("x")))
    old, new = RetainedVersion(1, 0, "c", 1), RetainedVersion(2, 0, "c", 1)
    pair.stores[0].put("door", new, b"", proof=signed("door", new, b""))
    pair.stores[1].put("door", old, b"open", proof=signed("door", old, b"open"))
    pair.up()
    pair.run()
    assert pair.stores[0].versions.state() == {"door": new}
    assert pair.are_equal()


def test_a_message_of_before_there_were_proofs_gets_one_of_its_origin_and_goes_on() -> None:
    """a wrote it; b had it before; c is new, and no neighbour of a."""
    version = RetainedVersion(1, 0, "a", 1)
    ab, bc = Pair((proofs("a"), proofs("b"))), Pair((proofs("b"), proofs("c")))
    ab.stores[0].put("door", version, b"shut", proof=OWN)
    for store in (ab.stores[1], bc.stores[0]):
        store.put("door", version, b"shut")
    bc.up()
    bc.run()
    assert not bc.stores[1].contents  # nobody could prove it
    assert bc.stores[0].contents["door"].payload == b"shut"  # and who has it keeps it
    ab.up()
    ab.run()
    assert ab.sides[1].counters.proven == 1
    proof = ab.stores[1].versions.proof("door")
    assert bc.stores[0].versions.prove(
        "door", version, proof
    )  # it is one gateway, in two pairs here
    bc.run()
    assert bc.are_equal()
    assert not ab.sides[1].counters.unproven + bc.sides[1].counters.unproven


def test_a_still_network_is_asked_for_proofs_that_nobody_has_ever_more_seldom() -> None:
    pair = Pair((proofs("a"), proofs("b")))
    version = RetainedVersion(1, 0, "gone", 1)
    for store in pair.stores:
        store.put("door", version, b"shut")
    pair.up()
    pair.run(3_600.0)
    in_first_hour = len(pair.sent)
    pair.run(24 * 3_600.0)
    assert len(pair.sent) - in_first_hour < in_first_hour
    assert pair.are_equal()


def test_a_neighbour_of_the_release_before_is_told_all_as_it_reads_it() -> None:
    pair = Pair((proofs("a"), None))
    version, other = RetainedVersion(1, 0, "a", 1), RetainedVersion(1, 1, "c", 1)
    pair.stores[0].put("door", version, b"shut", proof=OWN)
    pair.stores[0].put("lamp", other, b"on")  # without a proof: it would take that
    pair.stores[1].put("hall", other, b"on")
    pair.up()
    pair.run()
    assert {*pair.stores[1].contents} == {"door", "lamp", "hall"}
    for payload in pair.sent:
        kind, *fields = msgpack.unpackb(payload, use_list=False)
        if kind == 3 and any(row[0] in {"door", "lamp"} for row in fields[1]):
            assert {len(row) for row in fields[1]} == {11}
    # What it tells proves nothing. It is there still when it has the later release.
    assert {*pair.stores[0].contents} == {"door", "lamp"}
    assert {one.verdict for one in pair.sides[0].take_refused()} == {Verdict.UNSIGNED}


def test_what_is_signed_by_a_key_that_is_not_known_yet_is_asked_for_again() -> None:
    known: set[str] = set()
    pair = Pair((proofs("a", ModelRing(known)), proofs("c")))
    version = RetainedVersion(1, 0, "c", 1)
    pair.stores[1].put("door", version, b"shut", proof=OWN)
    pair.up()
    pair.run(1.0)
    assert not pair.stores[0].contents
    known.add("c")
    pair.run(60.0)
    assert pair.are_equal()


def test_many_proven_messages_come_in_answers_that_are_soon_checked() -> None:
    pair = Pair((proofs("a"), proofs("b")))
    for number in range(300):
        version = RetainedVersion(1, number, "b", 1)
        pair.stores[1].put(f"t/{number}", version, b"x", proof=OWN)
    pair.up()
    pair.run()
    assert pair.are_equal()
    told = [msgpack.unpackb(payload, use_list=False) for payload in pair.sent]
    assert max(len(fields[1]) for kind, *fields in told if kind == 3) <= ANSWER_PROVEN


def test_who_answers_without_an_end_and_brings_nothing_is_asked_ever_more_seldom() -> None:
    """Each answer goes on a little, so that the next question would come at once."""
    store, now = Store(), 0.0
    store.put("door", RetainedVersion(1, 0, "a", 1), b"shut")
    side = RetainedSync(store, Log())
    side.link_up(1, now)
    asked = 0
    said: deque[SendRetained] = deque()

    def liar(payload: bytes) -> bytes | None:
        kind, *fields = msgpack.unpackb(payload, use_list=False)
        if kind == SyncKind.DIGEST and fields[1]:
            return msgpack.packb((int(SyncKind.DIGEST), bytes(BUCKETS * HASH_BYTES), False))
        if kind == SyncKind.ASK:
            return msgpack.packb((int(SyncKind.ANSWER), (0, f"{asked:08}"), ()))
        return None

    while now < 3_600.0:
        now = max(now + 0.25, side.next_timer())
        side.receive(1, msgpack.packb((int(SyncKind.ROOT), bytes(HASH_BYTES))), now)
        said += side.handle_timer(now)
        while said and asked < 20 * MAX_FRUITLESS:
            payload = said.popleft().payload
            asked += payload[1] == SyncKind.ASK
            if (answer := liar(payload)) is not None:
                said += side.receive(1, answer, now)
    assert MAX_FRUITLESS < asked < 10 * MAX_FRUITLESS


@pytest.mark.parametrize("brings", [True, False])
def test_who_answers_without_an_end_keeps_no_other_neighbour_from_being_asked(brings: bool) -> None:
    """Link 1 answers a second before its time is over, with one more message or with none; link 2
    is honest and has what is wanted."""
    store, other = Store(), Store()
    store.put("door", RetainedVersion(1, 0, "a", 1), b"shut")
    other.put("lamp", RetainedVersion(1, 0, "a", 1), b"on")
    side, honest, now = RetainedSync(store, Log()), RetainedSync(other, Log()), 0.0
    side.link_up(1, now)
    said: deque[SendRetained] = deque()
    due: deque[tuple[float, bytes]] = deque()
    asked = 0

    def from_liar(payload: bytes) -> None:
        nonlocal asked
        kind, *fields = msgpack.unpackb(payload, use_list=False)
        if kind == SyncKind.DIGEST and fields[1]:
            told = msgpack.packb((int(SyncKind.DIGEST), bytes(BUCKETS * HASH_BYTES), False))
            due.append((now, told))
        elif kind == SyncKind.ASK:
            asked += 1
            one = Retained(f"{asked}", RetainedVersion(1, 0, "x", 1), 1, 1, b"x", {}, None, None)
            rows = (one.row(),) if brings else ()
            answer = msgpack.packb((int(SyncKind.ANSWER), (0, f"{asked:08}"), rows))
            due.append((now + ASK_TIMEOUT_S - 1, answer))

    said += side.receive(1, msgpack.packb((int(SyncKind.ROOT), bytes(HASH_BYTES))), now)
    while now < 1_000.0 and "lamp" not in store.contents:
        now += 0.25
        if now == 10.0:
            side.link_up(2, now)
            honest.link_up(2, now)
        said += side.handle_timer(now)
        while due and due[0][0] <= now:
            said += side.receive(1, due.popleft()[1], now)
        for told in honest.handle_timer(now):
            said += side.receive(2, told.payload, now)
        while said:
            send = said.popleft()
            if send.link == 1:
                from_liar(send.payload)
            else:
                for told in honest.receive(2, send.payload, now):
                    said += side.receive(2, told.payload, now)
    assert "lamp" in store.contents
    assert asked > 1


def test_what_stands_behind_very_much_that_brings_nothing_is_fetched_after_a_while() -> None:
    """A neighbour has much that is not believed here, as of origins that nobody knows, and one
    message behind all that."""
    store, now = Store(), 0.0
    store.put("door", RetainedVersion(1, 0, "a", 1), b"shut")
    side = RetainedSync(store, Log())
    side.link_up(1, now)
    last = Retained("lamp", RetainedVersion(1, 0, "a", 1), 1, 1, b"on", {}, None, None)
    places = [(0, f"{number:05}") for number in range(3 * MAX_FRUITLESS)] + [(BUCKETS, "")]
    said: deque[SendRetained] = deque()
    while now < 600.0:
        now = max(now + 0.25, side.next_timer())
        side.receive(1, msgpack.packb((int(SyncKind.ROOT), bytes(HASH_BYTES))), now)
        said += side.handle_timer(now)
        while said:
            kind, *fields = msgpack.unpackb(said.popleft().payload, use_list=False)
            answer = None
            if kind == SyncKind.DIGEST and fields[1]:
                answer = (int(SyncKind.DIGEST), bytes(BUCKETS * HASH_BYTES), False)
            elif kind == SyncKind.ASK:
                upto = next(place for place in places if place > fields[1])
                rows = (last.row(),) if upto == places[-1] else ()
                answer = (int(SyncKind.ANSWER), upto, rows)
            if answer is not None:
                said += side.receive(1, msgpack.packb(answer), now)
    assert store.contents["lamp"].payload == b"on"


def test_long_topics_are_asked_for_a_part_at_a_time() -> None:
    """A message with all of them would be larger than a neighbour takes."""
    pair = Pair()
    for number in range(40):
        pair.stores[0].put(f"{number:02}" + "t" * 60_000, RetainedVersion(1, 0, "a", 1), b"x")
    pair.stores[1].put("door", RetainedVersion(1, 0, "a", 1), b"shut")
    pair.up()
    pair.run()
    assert pair.are_equal()
    assert max(map(len, pair.sent)) < 300_000


def test_an_answer_that_goes_back_is_refused_and_of_what_was_given_up_it_is_passed_over() -> None:
    back = pack((int(SyncKind.ANSWER), START, []))
    slow = Slow()
    with pytest.raises(ProtocolError, match="answer that goes back, retained topics"):
        slow.side.receive(1, back, 3.0)
    assert slow.side.is_fetching  # the right one may still come
    late = Slow()
    late.side.handle_timer(40.0)
    assert late.side.receive(1, back, 40.0) == []
    assert not late.store.contents
    nobody = Slow()
    nobody.side.link_up(2, 3.0)
    assert nobody.side.receive(2, nobody.answer.payload, 3.0) == []  # it was not asked
    assert nobody.side.receive(3, nobody.answer.payload, 3.0) == []
    assert not nobody.store.contents


def answered(
    side: RetainedSync, *listed: tuple[str, RetainedVersion], after: object = START, **wants: bool
) -> tuple[object, list[str]]:
    """Ask a side for all that it has: up to where its answer goes, and its topics."""
    field = Wants(wants.get("unlisted", True), wants.get("proofs", False)).field()
    known = [(topic, *version) for topic, version in listed]
    ask = pack((int(SyncKind.ASK), list(range(BUCKETS)), after, END, field, known))
    (answer,) = side.receive(1, ask, 0.0)
    kind, upto, rows = msgpack.unpackb(answer.payload, use_list=False)
    assert kind == SyncKind.ANSWER
    return upto, [row[0] for row in rows]


def test_an_answer_has_what_is_newer_than_listed_and_if_that_is_wanted_what_is_not() -> None:
    store = Store()
    second = RetainedVersion(2, 0, "a", 1)
    for topic in ("older", "same", "newer", "unlisted"):
        store.put(topic, second, b"x")
    side = RetainedSync(store, Log())
    side.link_up(1, 0.0)
    listed = [
        ("older", RetainedVersion(3, 0, "a", 1)),
        ("same", second),
        ("newer", RetainedVersion(1, 0, "a", 1)),
        ("not here", second),
    ]
    upto, topics = answered(side, *listed)
    assert (upto, sorted(topics)) == (END, ["newer", "unlisted"])
    assert answered(side, *listed, unlisted=False) == (END, ["newer"])
    assert side.counters.sent == 3


@pytest.mark.parametrize(
    ("count", "payload_bytes", "first"),
    [
        (500, 1, 500),
        (501, 1, 500),
        (64, 919, 64),  # of 1,024 bytes each, with 5 of its topic and 100 for the rest
        (65, 919, 64),
        (65, 918, 65),
        (1, 100_000, 1),
    ],
)
def test_an_answer_ends_after_500_topics_or_64_kib(
    count: int, payload_bytes: int, first: int
) -> None:
    store = Store()
    for at in range(100, 100 + count):
        store.put(f"t/{at}", RetainedVersion(1, at, "a", 1), bytes(payload_bytes))
    side = RetainedSync(store, Log())
    side.link_up(1, 0.0)
    upto, topics = answered(side)
    assert len(topics) == first
    if first < count:
        assert isinstance(upto, tuple)
        assert upto[1] == topics[-1]
        upto, rest = answered(side, after=upto)
        topics += rest
    assert (upto, len(set(topics))) == (END, count)


def test_an_answer_has_64_messages_with_proofs_and_leaves_out_what_has_none() -> None:
    store = Store()
    for at in range(65):
        store.put(f"t/{at}", RetainedVersion(1, at, "a", 1), b"x", proof=OWN)
    store.put("bare", RetainedVersion(1, 0, "a", 1), b"x")
    side = RetainedSync(store, Log(), proofs=RetainedProofs(ModelSigner("a"), ModelRing(), "t"))
    side.link_up(1, 0.0)
    upto, topics = answered(side, proofs=True)
    assert len(topics) == 64
    end, rest = answered(side, after=upto, proofs=True)
    assert (end, len(rest), "bare" in topics + rest) == (END, 1, False)
    assert len(answered(side)[1]) == 66  # to who reads no proofs
