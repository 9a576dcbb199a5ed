"""Messages that wait for sessions are spilled before the log drops them, within each quota."""

from __future__ import annotations

import sqlite3
import weakref
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from compiled_sources import is_compiled
from hypothesis import given
from hypothesis import strategies as st

from gateway.broker.durability import offline_spill
from gateway.broker.durability.history import History
from gateway.broker.durability.offline_spill import OfflineSpill, SpillCandidates
from gateway.broker.durability.saved import Checkpoint
from gateway.broker.durability.store import Store, StoreError
from gateway.broker.hooks import Owner
from gateway.broker.limits import Limits
from gateway.broker.sessions.places import Places, WaitingRun
from gateway.log.message_log import MessageLog
from tree_handler import batch
from tree_handler.batch import Entry, Epoch, Flags, Header
from tree_handler.intervals import Intervals

OWN: Epoch = ("gw", 1)
ANNA, BOB = ("anna", False), ("bob", False)
PLENTY = 1 << 20


class Frames:
    """A part of a log with one message of 1,000 bytes in each batch."""

    behind = 7

    def __init__(self, count: int) -> None:
        self.frames = [made(number) for number in range(1, count + 1)]

    def __len__(self) -> int:
        return len(self.frames)

    def read(self, key: Epoch, ranges: Intervals) -> Iterator[tuple[bytes, Header]]:
        for frame in self.frames:
            header = batch.check(frame)
            if key == OWN and header.first in ranges:
                yield frame, header


def payload(number: int) -> bytes:
    return b"%04d" % number + bytes(996)


def made(number: int) -> bytes:
    rows = [Entry("t", payload(number), 1).row()]
    return batch.make(*OWN, number, rows, flags=Flags.LOGGED, origin_time_us=1)[0]


def places(*ranges: int, key: Epoch = OWN) -> Places:
    made = Places()
    for first, last in zip(ranges[::2], ranges[1::2], strict=True):
        made.add(WaitingRun((key, 1, ()), first, last))
    return made


def look(
    frames: Frames,
    *waiting: tuple[Owner, Places],
    user_bytes: int = PLENTY,
    all_bytes: int = PLENTY,
) -> SpillCandidates:
    return SpillCandidates(list(waiting), frames, user_bytes, all_bytes)


def numbers(store: Store, first: int = 1, last: int = 1 << 40) -> list[int]:
    found = list(store.spared(OWN, first, last))
    assert all(entry == Entry("t", payload(number), 1) for number, entry in found)
    return [number for number, _ in found]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with closing(Store(tmp_path / "s")) as made:
        yield made


def test_only_what_waits_is_put_by_and_a_start_finds_it(store: Store, tmp_path: Path) -> None:
    assert not store.has_spared
    store.save(Checkpoint(), look(Frames(20), (ANNA, places(2, 4, 9, 9)), (BOB, places(4, 5))))
    assert numbers(store) == [2, 3, 4, 5, 9]  # once, though both wait for it
    assert numbers(store, 3, 8) == [3, 4, 5]
    with closing(Store(tmp_path / "s")) as again:
        assert again.has_spared
        assert numbers(again) == [2, 3, 4, 5, 9]


def test_it_is_gone_once_nobody_waits_for_it(store: Store) -> None:
    frames = Frames(20)
    store.save(Checkpoint(), look(frames, (ANNA, places(1, 10)), (BOB, places(8, 12))))
    store.save(Checkpoint(), look(Frames(0), (ANNA, places(6, 10)), (BOB, places(8, 12))))
    assert numbers(store) == list(range(6, 13))
    store.save(Checkpoint(), look(Frames(0), (BOB, places(11, 12))))
    assert numbers(store) == [11, 12]
    store.save(Checkpoint(), look(Frames(0)))
    assert not store.has_spared
    assert numbers(store) == []


def test_one_users_share_is_his_own(store: Store) -> None:
    greedy = [(ANNA, places(1, 50)) for _ in range(20)]
    waiting = (*greedy, (BOB, places(40, 42)))
    for _ in range(3):  # what is put by again takes no more of the share
        store.save(Checkpoint(), look(Frames(50), *waiting, user_bytes=5_500))
    assert numbers(store) == [1, 2, 3, 4, 5, 40, 41, 42]


def test_a_name_that_a_certificate_proves_has_a_share_of_its_own(store: Store) -> None:
    waiting = ((ANNA, places(1, 9)), (("anna", True), places(7, 9)), ((None, False), places(9, 9)))
    store.save(Checkpoint(), look(Frames(9), *waiting, user_bytes=2_200))
    assert numbers(store) == [1, 2, 7, 8, 9]


def test_all_together_have_a_limit(store: Store) -> None:
    users = [((f"u{n}", False), places(n, n)) for n in range(1, 31)]
    store.save(Checkpoint(), look(Frames(30), *users, all_bytes=10_900))
    assert numbers(store) == list(range(1, 11))


def test_nothing_is_put_by_where_the_share_is_nothing(store: Store) -> None:
    store.save(Checkpoint(), look(Frames(3), (ANNA, places(1, 3)), user_bytes=0))
    assert not store.has_spared


def test_a_batch_that_is_damaged_costs_no_other(store: Store) -> None:
    class Damaged(Frames):
        def read(self, key: Epoch, ranges: Intervals) -> Iterator[tuple[bytes, Header]]:
            for frame, header in super().read(key, ranges):
                yield (frame[:-100] if header.first == 2 else frame), header

    store.save(Checkpoint(), look(Damaged(3), (ANNA, places(1, 3))))
    assert numbers(store) == [1, 3]


def test_a_log_that_can_not_be_read_leaves_the_checkpoint_before(store: Store) -> None:
    class Broken(Frames):
        def read(self, key: Epoch, ranges: Intervals) -> Iterator[tuple[bytes, Header]]:
            raise OSError("unreadable")

    store.save(Checkpoint(position=1), look(Frames(3), (ANNA, places(1, 1))))
    with pytest.raises(OSError, match="unreadable"):
        store.save(Checkpoint(position=2), look(Broken(3), (ANNA, places(1, 3))))
    assert store.load().position == 1
    assert numbers(store) == [1]


def test_a_message_that_is_damaged_costs_no_other_and_is_named(
    store: Store, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store.save(Checkpoint(), look(Frames(3), (ANNA, places(1, 3))))
    with closing(sqlite3.connect(tmp_path / "s")) as other:
        other.execute("UPDATE spared SET properties = x'c1' WHERE number = 2")
        other.commit()
    assert numbers(store) == [1, 3]
    assert "message 2 of " in caplog.text


def test_what_can_not_be_read_any_more_is_an_error_of_the_store(
    store: Store, tmp_path: Path
) -> None:
    store.save(Checkpoint(), look(Frames(3), (ANNA, places(1, 3))))
    with closing(sqlite3.connect(tmp_path / "s")) as other:
        other.execute("DROP TABLE spared")
        other.commit()
    with pytest.raises(StoreError, match=str(tmp_path / "s")):
        list(store.spared(OWN, 1, 3))


@given(
    st.lists(
        st.lists(
            st.tuples(st.sampled_from("abc"), st.sets(st.integers(1, 30), min_size=1)), max_size=5
        ),
        min_size=1,
        max_size=4,
    )
)
def test_with_room_for_all_there_is_all_that_waits_and_nothing_before_it(
    tmp_path_factory: pytest.TempPathFactory, rounds: list[list[tuple[str, set[int]]]]
) -> None:
    """Round by round, ten more numbers go; who waits may change as queues do not even."""
    with closing(Store(tmp_path_factory.mktemp("spared") / "s")) as store:
        held: set[tuple[str, int]] = set()
        for at, waiting in enumerate(rounds):
            frames = Frames(10 * (at + 1))
            frames.frames = frames.frames[10 * at :]
            went = range(10 * at + 1, 10 * at + 11)
            shown = [
                ((who, False), places(*(each for n in sorted(of) for each in (n, n))))
                for who, of in waiting
            ]
            store.save(Checkpoint(), look(frames, *shown))
            wanted = {who: set[int]() for who, _ in waiting}
            for who, of in waiting:
                wanted[who] |= of
            held = {(w, n) for w, n in held if n >= min(wanted.get(w, {99}))}
            held |= {(who, n) for who, of in wanted.items() for n in of if n in went}
            assert numbers(store) == sorted({n for _, n in held})


def test_of_a_log_goes_what_is_beyond_its_size_and_each_part_once(tmp_path: Path) -> None:
    whole = Intervals([(1, 100)])
    with closing(MessageLog(tmp_path, segment_bytes=3_000, max_bytes=9_000)) as log:
        log.open()
        gone: list[int] = []
        behind = 0
        for number in range(1, 41):
            frame = made(number)
            log.append(frame, batch.check(frame))
            if number % 6 == 0:
                going = log.goes_next(behind, 5_000)
                gone += [header.first for _, header in going.read(OWN, whole)]
                behind = going.behind
                log.may_trim(behind)
                log.trim()
                assert log.kept_from()[OWN] <= len(gone) + 1
    assert gone == list(range(1, len(gone) + 1))
    assert len(gone) > 20


class Waiting:
    """A session of Anna's for which a message waits."""

    client = SimpleNamespace(owner=ANNA)
    outgoing = SimpleNamespace(
        backlog=SimpleNamespace(count=1, taken=0, places=lambda: [places(1, 1)])
    )


async def test_a_session_that_has_ended_is_not_kept_by_what_was_looked_at_ahead() -> None:
    if is_compiled(offline_spill):
        pytest.skip("compiled code takes no stand-in for a session")
    sessions = {"a": Waiting()}
    history = cast(History, SimpleNamespace(goes_next=lambda *_: Frames(1)))
    spill = OfflineSpill(sessions, history, Limits())  # type: ignore[arg-type]  # a stand-in
    await spill.prepare(has_any=True)
    assert spill.look(has_any=True) is not None
    ended = weakref.ref(sessions.pop("a"))
    assert ended() is None
