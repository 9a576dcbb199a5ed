"""A batch is its origin's or it is refused, whoever hands it over."""

from __future__ import annotations

import struct
import zlib
from dataclasses import replace

import pytest
from counting_ring import CountingRing
from hypothesis import given
from hypothesis import strategies as st

from tree_handler import batch
from tree_handler.batch import FRAME, MAX_NUMBER, Entry, Flags
from tree_handler.errors import BatchError, ProtocolError
from tree_handler.intervals import Intervals
from tree_handler.proof import Verdict
from tree_handler.replication import arrivals
from tree_handler.replication.actions import Append, Refuse
from tree_handler.replication.answering import answer
from tree_handler.replication.delivery import Deliver
from tree_handler.replication.repair import Request, Summary
from tree_handler.replication.replication import RepairSettings, Replication
from tree_handler.seal import Seals
from tree_handler.simulation.model_keys import ModelRing, ModelSigner
from tree_handler.simulation.table_sizes import table_sizes
from tree_handler.spanning.election import Identity, Root

LINK = 1
RING = ModelRing({"gw-a", "gw-b", "gw-x"})


def seals(gateway_id: str, ring: ModelRing = RING, tree: str = "t") -> Seals:
    return Seals(ModelSigner(gateway_id), ring, tree)


def sealed(
    by: str, origin: str = "gw-a", first: int = 1, flags: int = Flags.LOGGED, epoch: int = 1
) -> bytes:
    rows = [Entry("t", b"payload", 1).row()]
    seal = seals(by).seal
    return batch.make(origin, epoch, first, rows, flags=flags, origin_time_us=0, seal=seal)[0]


SEALED = sealed("gw-a")


def with_crc(frame: bytes) -> bytes:
    """Return the frame with its right CRC, so that nothing but the seal can be wrong."""
    crc = zlib.crc32(frame[FRAME.size :], zlib.crc32(frame[3:4]))
    return frame[:8] + struct.pack(">I", crc) + frame[FRAME.size :]


def receiver(
    ring: ModelRing = RING, have: dict[tuple[str, int], Intervals] | None = None
) -> Replication:
    core = Replication("gw-b", 9, have, RepairSettings(seals=seals("gw-b", ring)))
    core.repair.link_up(LINK, 0.0)
    core.repair.forwarding(LINK, forwards=True)
    core.repair.receive_summary(LINK, Summary(completes=True), 0.0)
    return core


def test_a_sealed_batch_is_decoded_like_any_other_and_proven() -> None:
    header = batch.check(SEALED)
    assert header.flags == Flags.LOGGED | Flags.SEALED
    assert batch.decode(SEALED, header) == [Entry("t", b"payload", 1)]
    assert seals("gw-b").check(SEALED, header) is Verdict.PROVEN
    assert seals("gw-b", tree="another").check(SEALED, header) is Verdict.FORGED
    assert seals("gw-b", ModelRing({"gw-b"})).check(SEALED, header) is Verdict.UNKNOWN


@given(st.integers(3, len(SEALED) - 1), st.integers(1, 255))
def test_no_byte_of_a_sealed_batch_can_be_another_one(at: int, change: int) -> None:
    altered = bytearray(SEALED)
    altered[at] ^= change
    frame = with_crc(bytes(altered))
    try:
        header = batch.check(frame)
    except BatchError:
        return
    if at in range(4, FRAME.size) and frame == SEALED:
        return  # length and CRC are no part of what is said
    assert seals("gw-b").check(frame, header) is not Verdict.PROVEN


def test_what_stays_in_its_gateway_is_not_sealed_and_what_is_said_of_it_is() -> None:
    stays = batch.make(
        "gw-a",
        1,
        1,
        [Entry("t", b"", 1).row()],
        flags=Flags.LOGGED | Flags.LOCAL,
        origin_time_us=0,
        seal=seals("gw-a").seal,
    )
    assert not stays[1].seal_bytes
    (said,) = answer([stays], seals("gw-a").seal)
    header = batch.check(said)
    assert header.passed
    assert seals("gw-b").check(said, header) is Verdict.PROVEN


@pytest.mark.parametrize("flags", [Flags.LOGGED, Flags.NONE, Flags.LOGGED | Flags.CONTROL])
@pytest.mark.parametrize("repair", [False, True])
def test_a_forged_batch_is_refused_and_the_true_one_is_taken_after_it(
    flags: int, repair: bool
) -> None:
    core = receiver()
    forged = sealed("gw-x", flags=flags)
    ((refuse),) = core.receive_batch(LINK, forged, repair=repair)
    assert isinstance(refuse, Refuse)
    assert (refuse.frame, refuse.link, refuse.verdict) == (forged, LINK, Verdict.UNKNOWN)
    unsigned = batch.encode("gw-a", 1, 1, [Entry("t", b"x")], flags=flags, origin_time_us=0)
    (refuse,) = core.receive_batch(LINK, unsigned, repair=repair)
    assert refuse.verdict is Verdict.UNSIGNED
    assert core.have == {}
    taken = core.receive_batch(LINK, sealed("gw-a", flags=flags), repair=repair)
    assert isinstance(taken[-1], Append | Deliver)
    assert (core.counters.forged, core.counters.unknown) == (1, 1)


@pytest.mark.parametrize("epoch", [1 << 20, (1 << 32) - 1])
def test_nobody_else_opens_an_epoch_of_a_gateway(epoch: int) -> None:
    core = receiver()
    for flags in (Flags.NONE, Flags.LOGGED | Flags.CONTROL):
        (refuse,) = core.receive_batch(LINK, sealed("gw-x", flags=flags, epoch=epoch))
        assert isinstance(refuse, Refuse)
        assert core.receive_batch(LINK, sealed("gw-a", flags=flags))


def test_what_breaks_the_rules_moves_nobodys_numbers_unless_its_origin_sealed_it() -> None:
    core = receiver()
    local = bytearray(batch.encode("gw-a", 1, 1, [Entry("t", b"")], flags=1, origin_time_us=0))
    local[3] |= Flags.LOCAL
    for _ in range(5):
        with pytest.raises(ProtocolError):
            core.receive_batch(LINK, with_crc(bytes(local)))
    assert core.have == {}


def test_a_forged_copy_of_what_is_known_is_not_passed_on_to_who_seeks_it() -> None:
    core = receiver(have={("gw-a", 1): Intervals([(1, 1)])})
    from tree_handler.replication.repair import Seek

    core.repair.link_up(2, 0.0)
    core.repair.receive_seek(2, Seek(("gw-c", 1, 1), {("gw-a", 1): Intervals([(1, 1)])}), 0.0)
    (refuse,) = core.receive_batch(LINK, sealed("gw-x"), repair=True)
    assert isinstance(refuse, Refuse)


def test_a_batch_of_an_unknown_key_is_asked_for_again_when_the_key_is_there() -> None:
    ring = ModelRing({"gw-b"})
    core = receiver(ring)
    (refuse,) = core.receive_batch(LINK, SEALED)
    assert refuse.verdict is Verdict.UNKNOWN
    asked = core.repair.ask_anew(1.0)
    assert [action.request for action in asked] == [Request({("gw-a", 1): Intervals([(1, 1)])})]


def test_who_hands_over_forged_batches_is_not_asked_for_them_again() -> None:
    core = receiver()
    core.repair.receive_summary(LINK, Summary({("gw-a", 1): Intervals([(1, 5)])}), 0.0)
    unsigned = batch.encode("gw-a", 1, 1, [Entry("t", b"x")] * 5, flags=1, origin_time_us=0)
    core.receive_batch(LINK, unsigned, repair=True)
    assert core.repair.receive_done(LINK, 1.0) == []
    assert core.repair.ask_anew(2.0) == []


def test_an_origin_makes_so_many_gaps_in_its_numbers_and_so_many_lives_and_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(arrivals, "MAX_GAPS", 3)
    monkeypatch.setattr(arrivals, "MAX_LIVES", 2)
    core = receiver()
    for first in (2, 4, 6):
        (append, *_) = core.receive_batch(LINK, sealed("gw-a", first=first))
        core.appended(append)
    assert core.receive_batch(LINK, sealed("gw-a", first=9)) == []
    assert core.receive_batch(LINK, sealed("gw-a", first=1)) != []
    (append, *_) = core.receive_batch(LINK, sealed("gw-a", epoch=2))
    core.appended(append)
    assert core.receive_batch(LINK, sealed("gw-a", epoch=3)) == []
    assert core.counters.left_out == 2


def test_an_origins_gaps_are_counted_over_all_its_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrivals, "MAX_GAPS", 3)
    core = receiver()
    for epoch in (1, 2, 3):
        (append, *_) = core.receive_batch(LINK, sealed("gw-a", epoch=epoch, first=2))
        core.appended(append)
    for epoch in (1, 2, 3):
        assert core.receive_batch(LINK, sealed("gw-a", epoch=epoch, first=9)) == []
    (append, *_) = core.receive_batch(LINK, sealed("gw-a", epoch=3, first=1))  # closes one
    core.appended(append)
    assert core.receive_batch(LINK, sealed("gw-a", epoch=4, first=1))  # nor is a new life kept out
    assert core.receive_batch(LINK, sealed("gw-b", first=9))


def test_numbers_that_no_gateway_could_have_counted_to_are_not_taken() -> None:
    core = receiver()
    far = arrivals.FARTHEST
    for first in (far + 1, MAX_NUMBER - 9):
        assert core.receive_batch(LINK, sealed("gw-a", first=first)) == []
    assert core.receive_batch(LINK, sealed("gw-a", first=far))
    assert core.counters.left_out == 2


def test_a_neighbour_that_floods_forged_batches_loses_its_link_in_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(arrivals, "MAX_FORGED", 5)
    core = receiver()
    bent = bytearray(SEALED)
    bent[-5] ^= 1
    for _ in range(5):
        (refuse,) = core.receive_batch(LINK, with_crc(bytes(bent)))
        assert refuse.verdict is Verdict.FORGED
    with pytest.raises(ProtocolError, match="one forged batch too many"):
        core.receive_batch(LINK, with_crc(bytes(bent)))
    assert core.have == {}
    assert core.receive_batch(LINK, SEALED)


def test_of_links_that_have_ended_it_is_not_remembered_how_much_was_forged_over_them() -> None:
    core = receiver()
    bent = bytearray(SEALED)
    bent[-5] ^= 1
    before = table_sizes({"core": core})
    for link in range(LINK + 1, LINK + 101):
        core.repair.link_up(link, 0.0)
        core.receive_batch(link, with_crc(bytes(bent)), repair=True)
        core.repair.link_down(link, 0.0)
    assert table_sizes({"core": core}) == before


def test_a_root_is_what_it_says_itself_and_nobody_else() -> None:
    own, other = seals("gw-a"), seals("gw-b")
    root = own.stands(Identity("gw-a", 7, 2.0, "10.0.0.1")).root
    assert other.is_candidate(root)
    assert other.is_candidate(root)
    for wrong in (
        replace(root, boot_epoch=8),
        replace(root, capability=3.0),
        replace(root, address="10.0.0.2"),
        replace(root, gateway_id="gw-b"),
        replace(root, seal=b""),
        replace(root, seal=seals("gw-x").stands(Identity("gw-a", 7, 2.0, "10.0.0.1")).seal),
    ):
        assert not other.is_candidate(wrong)


def test_who_only_receives_stands_for_election_without_any_capability_alone() -> None:
    looked_at = Seals(ModelSigner("gw-b"), CountingRing(), "t")
    for gateway_id, capability, stands in (
        ("gw-a", 1.0, True),
        ("gw-x", 0.0, True),
        ("gw-x", 1.0, False),
    ):
        identity = Identity(gateway_id, 1, capability, "10.0.0.1")
        assert looked_at.is_candidate(seals(gateway_id).stands(identity).root) is stands


def test_a_thousand_roots_are_not_looked_at_again_and_the_first_goes_first() -> None:
    ring = CountingRing()
    reader = Seals(None, ring, "t")
    roots = [
        seals("gw-a").stands(Identity("gw-a", epoch, 1.0, "10.0.0.1")).root
        for epoch in range(1, 1_002)
    ]

    def looks(*some: Root) -> int:
        before = ring.looks
        assert all(reader.is_candidate(root) for root in some)
        return ring.looks - before

    assert looks(*roots[:1_000]) == 1_000
    assert looks(*roots[:1_000]) == 0
    assert looks(roots[1_000]) == 1
    assert looks(*roots[1:]) == 0
    assert looks(roots[0]) == 1
    assert not reader.is_candidate(replace(roots[0], seal=roots[1].seal))
    assert not reader.is_candidate(roots[0], b"overlay")
