"""Proofs of retained messages are asked for anew before their keys are forgotten.

Goal: whatever keys an origin has had, a newcomer anywhere gets what that origin still stands for.
A line of gateways compares what it retains; the origin is at one end, newcomers join at the other.
"""

from __future__ import annotations

from collections import deque

import msgpack
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.unit.tree_handler.test_retained_sync import Log, Store
from tree_handler.proof import Verdict
from tree_handler.retained.hybrid_clock import RetainedVersion
from tree_handler.retained.proof import OWN, RetainedProofs
from tree_handler.retained.sync import RetainedSync
from tree_handler.retained.sync_state import SendRetained
from tree_handler.retained.sync_wire import SyncKind
from tree_handler.retained.versions import RetainedVersions
from tree_handler.simulation.years_keys import KnownKeys, KnownKeysRing, RenewedSigner

HOUR_S = 3_600.0
PER_LINK_S = 30.0
"""So long a fresh proof takes over one link, and a newcomer for what it lacks."""
ORIGIN = 0


class RingByAClock:
    """A ring by which no key counts while its gateway's clock is wrong."""

    def __init__(self, known: KnownKeys) -> None:
        self.is_clock_right = True
        self._ring = KnownKeysRing(known)

    def verify(
        self,
        gateway_id: str,
        message: bytes,
        signature: bytes,
        late_s: float = 0.0,
        life: int = 0,
    ) -> Verdict:
        if not self.is_clock_right:
            return Verdict.UNKNOWN
        return self._ring.verify(gateway_id, message, signature, late_s, life)

    def knows_key(
        self, gateway_id: str, signature: bytes, late_s: float = 0.0, life: int = 0
    ) -> bool:
        return self.is_clock_right and self._ring.knows_key(gateway_id, signature, late_s, life)

    def only_receives(self, gateway_id: str) -> bool:
        return self._ring.only_receives(gateway_id)


class Fleet:
    """Gateways in a line, each with the keys that it knows."""

    def __init__(self, length: int) -> None:
        self.now = 0.0
        self.sent: list[bytes] = []
        self.keys: list[KnownKeys] = []
        self.rings: list[RingByAClock] = []
        self.stores: list[Store] = []
        self.sides: list[RetainedSync] = []
        self._wire: deque[tuple[int, int, bytes]] = deque()
        for _ in range(length):
            self.join()

    def join(self) -> int:
        """A newcomer links to the last one; it is told which keys there are."""
        at = len(self.sides)
        keys, name = KnownKeys(), f"gw-{at}"
        for key in self.keys[-1] if self.keys else ():
            keys.add(key)
        self.keys.append(keys)
        self.stores.append(Store(RetainedVersions(own_id=name)))
        self.rings.append(RingByAClock(keys))
        proofs = RetainedProofs(RenewedSigner(name, keys), self.rings[-1], "t")
        self.sides.append(RetainedSync(self.stores[-1], Log(), proofs=proofs))
        self.tell_all((name, 0))
        if at:
            self.sides[at - 1].link_up(at, self.now)
            self.sides[at].link_up(at - 1, self.now)
        return at

    def tell_all(self, key: tuple[str, int]) -> None:
        for known in self.keys:
            known.add(key)

    def write(self, topic: str, logical: int) -> None:
        """The origin writes something, which its log brings to everybody who is there."""
        version = RetainedVersion(1, logical, "gw-0", 1)
        self.stores[ORIGIN].put(topic, version, b"shut", self.now, proof=OWN)
        told = self.stores[ORIGIN].contents[topic]
        signer = RenewedSigner("gw-0", self.keys[ORIGIN])
        (signed,) = RetainedProofs(signer, KnownKeysRing(self.keys[ORIGIN]), "t").prove([told])
        for store in self.stores[1:]:
            store.put(topic, version, b"shut", self.now, proof=signed.proof)

    def renew(self) -> None:
        """The origin has another key; everybody is told."""
        self.tell_all(self.keys[ORIGIN].renew("gw-0"))

    def run(self, for_s: float) -> None:
        until = self.now + for_s
        while True:
            while self._wire:
                source, to, payload = self._wire.popleft()
                self._carry(to, self.sides[to].receive(source, payload, self.now))
            self.now = min(side.next_timer() for side in self.sides)
            if self.now > until:
                self.now = until
                return
            for at, side in enumerate(self.sides):
                self._carry(at, side.handle_timer(self.now))

    def _carry(self, at: int, sends: list[SendRetained]) -> None:
        for send in sends:
            self.sent.append(send.payload)
            self._wire.append((at, send.link, send.payload))

    def refused(self) -> int:
        return sum(side.counters.unproven for side in self.sides)


@given(
    length=st.integers(2, 5),
    renewals=st.lists(st.tuples(st.floats(0.0, 300.0), st.booleans()), max_size=20),
)
@example(3, [(0.0, True), *[(0.0, False)] * 7, (17.0, True)])  # with the proof comes news
@settings(max_examples=15, deadline=None)
def test_after_any_changes_of_its_key_a_newcomer_gets_what_an_origin_wrote(
    length: int, renewals: list[tuple[float, bool]]
) -> None:
    fleet = Fleet(length)
    fleet.write("door", 0)
    for number, (after_s, writes) in enumerate(renewals, 1):
        fleet.run(after_s)
        fleet.renew()
        if writes:
            fleet.write(f"lamp/{number}", number)
    fleet.run(PER_LINK_S * length)
    fleet.join()
    fleet.run(PER_LINK_S)
    assert fleet.stores[-1].contents.keys() == fleet.stores[ORIGIN].contents.keys()


def test_after_twenty_changes_of_its_key_a_newcomer_gets_all_and_then_it_is_still() -> None:
    fleet = Fleet(5)
    topics = 20
    for number in range(topics):
        fleet.write(f"t/{number}", number)
    for _ in range(20):
        fleet.renew()
        fleet.run(60.0)
    rows = sum(
        len(told[2]) for told in map(msgpack.unpackb, fleet.sent) if told[0] == SyncKind.ANSWER
    )
    # Each of the four others can't check a topic twice in twenty changes, and is told it once then,
    # and perhaps by one that can't check it either.
    assert rows <= 4 * 2 * 2 * topics
    fleet.join()
    fleet.run(PER_LINK_S)
    assert len(fleet.stores[-1].contents) == topics
    assert not fleet.refused()
    fleet.run(60.0)
    said = len(fleet.sent)
    fleet.run(HOUR_S)
    assert len(fleet.sent) == said


def test_what_an_origin_wrote_that_has_gone_stays_as_it_is_and_is_asked_for_ever_more_seldom() -> (
    None
):
    fleet = Fleet(3)
    fleet.write("door", 0)
    fleet.sides[1].link_down(0, fleet.now)
    fleet.sides[0].link_down(1, fleet.now)
    fleet.run(60.0)
    for _ in range(20):
        fleet.renew()
    fleet.run(HOUR_S)
    first = len(fleet.sent)
    fleet.run(3 * HOUR_S)
    assert len(fleet.sent) - first < first
    assert "door" in fleet.stores[1].contents
    assert "door" in fleet.stores[2].contents


def test_a_clock_that_was_wrong_for_a_while_costs_no_proof() -> None:
    """By it no certificate counts; set right, each proof that is kept counts again."""
    fleet = Fleet(2)
    fleet.write("door", 0)
    proof = fleet.stores[1].versions.proof("door")
    fleet.sides[1].link_down(0, fleet.now)
    fleet.sides[0].link_down(1, fleet.now)
    fleet.join()
    for ring in fleet.rings[1:]:
        ring.is_clock_right = False
    fleet.run(60.0)
    assert fleet.stores[1].versions.unproven
    for ring in fleet.rings[1:]:
        ring.is_clock_right = True
    fleet.run(60.0)
    assert not fleet.stores[1].versions.unproven
    assert fleet.stores[1].versions.proof("door") == proof
    assert "door" in fleet.stores[2].contents


@pytest.mark.parametrize("times", [1, 50])
def test_a_neighbour_that_says_again_and_again_that_it_learnt_proofs_is_not_asked_each_time(
    times: int,
) -> None:
    fleet = Fleet(2)
    fleet.stores[1].put("door", RetainedVersion(1, 0, "gone", 1), b"shut")
    fleet.run(60.0)
    root = msgpack.packb((int(SyncKind.ROOT), fleet.stores[1].versions.root()))
    said = len(fleet.sent)
    for _ in range(times):
        fleet.sides[1].receive(0, root, fleet.now)
        fleet.run(0.3)
    assert len(fleet.sent) - said <= 6
