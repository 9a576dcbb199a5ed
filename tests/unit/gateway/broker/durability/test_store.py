"""The file of checkpoints: all that one says comes back, but for what the next one replaces."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgpack
import pytest

from gateway.base.lasting_clock import Mark
from gateway.broker.durability.delivery_gaps import SavedGap
from gateway.broker.durability.saved import (
    Checkpoint,
    SavedDelivery,
    SavedMessage,
    SavedPlaces,
    SavedSession,
    SavedTombstone,
)
from gateway.broker.durability.standing_wills import SavedWill
from gateway.broker.durability.store import Store, StoreError
from gateway.broker.hooks import Client
from gateway.broker.outbound.message import share_mark
from gateway.broker.retained.retained_backlog import BacklogFilter, RetainedBacklog
from gateway.broker.sessions.places import SINCE
from gateway.broker.sessions.subscription import Subscription
from tree_handler.batch import Entry, Epoch
from tree_handler.retained.hybrid_clock import RetainedVersion

KEY: Epoch = ("gw", 3)
OTHER: Epoch = ("other", 9)
MARK = share_mark(("g", "t/#"))


def message(number: int, key: Epoch = KEY, expires_us: int | None = None) -> SavedMessage:
    entry = Entry(f"t/{number}", b"%d" % number, 1, True, {3: "text", 38: (("a", "b"),)})
    return SavedMessage((key, number), entry, expires_us)


def session(number: int) -> SavedSession:
    """One that has something of everything."""
    first, second = message(1), message(2, OTHER, 77)
    return SavedSession(
        number,
        Client.away(f"c{number}", "anna", ("a", "b"), 5),
        60,
        9,
        (3, 7),
        {"t/#": Subscription(2, True, False, 9), "$share/g/t/#": Subscription(1)},
        [SavedDelivery(9, first, 2, (5,)), SavedDelivery(8, None, 0, ())],
        [
            SavedDelivery(0, second, 4 | MARK, ()),
            SavedPlaces(KEY, (50, 60, 62, 62), 2 | MARK, (5, 6)),
            SavedDelivery(0, first, 2, ()),
            SavedPlaces(OTHER, (1, 9), 4, (), None, ((2, SINCE, 10**12), (5, 0, 0))),
        ],
        away_us=123,
        owed=RetainedBacklog((BacklogFilter("t/#", 1, 9),), {"t/1", "t/2"}),
    )


def will(number: int) -> SavedWill:
    where = ("w", b"gone", 1, True, {2: 60})
    return SavedWill(number, f"c{number}", None, None, 4, *where)


def whole() -> Checkpoint:
    return Checkpoint(
        position=700,
        next_session=5,
        delivered={KEY: 90, OTHER: 3},
        sessions=[session(1), session(2)],
        retained={"t/1": message(1), "t/8": message(8)},
        tombstones={"dead": SavedTombstone(RetainedVersion(5, 1, *OTHER), 4, 1, 99)},
        wills={1: will(1), 2: will(2)},
        mark=Mark(6, 3, 5, 4, 3, is_synchronised=True),
        proofs={"t/1": b"proof", "dead": b"other"},
        spared_until=300,
        lacking=[SavedGap(0, *KEY, (3, 4, 9, 9)), SavedGap(7, *KEY, (3, 3))],
    )


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = Store(tmp_path / "broker.sqlite3")
    yield made
    made.close()


def test_all_that_a_checkpoint_says_comes_back_also_from_the_file(
    store: Store, tmp_path: Path
) -> None:
    assert store.load() == Checkpoint()
    store.save(whole())
    assert store.load() == whole()
    store.close()
    again = Store(tmp_path / "broker.sqlite3")
    assert again.load() == whole()
    again.close()
    with pytest.raises(StoreError, match="closed database"):
        again.save(Checkpoint())


def test_the_next_one_replaces_what_it_names_and_all_that_is_of_the_moment(store: Store) -> None:
    store.save(whole())
    changed = SavedSession(2, Client.away("c2", None, None, 4), 30, 1, (), {}, [], [])
    store.save(
        Checkpoint(
            position=800,
            next_session=6,
            delivered={OTHER: 4},
            sessions=[changed],
            ended=[1],
            retained={"t/1": None, "t/8": message(9), "dead": message(3, OTHER)},
            tombstones={
                "dead": None,
                "t/1": SavedTombstone(RetainedVersion(6, 0, *KEY), 5, None, 9),
            },
            wills={1: None, 3: will(3)},
            proofs={"dead": None, "t/8": b"new"},
            mark=Mark(7, 4, 5, 4, 3, is_synchronised=False),
        )
    )
    assert store.load() == Checkpoint(
        position=800,
        next_session=6,
        delivered={OTHER: 4},
        sessions=[changed],
        retained={"t/8": message(9), "dead": message(3, OTHER)},
        tombstones={"t/1": SavedTombstone(RetainedVersion(6, 0, *KEY), 5, None, 9)},
        wills={2: will(2), 3: will(3)},
        proofs={"t/1": b"proof", "t/8": b"new"},
        mark=Mark(7, 4, 5, 4, 3, is_synchronised=False),
    )


def test_a_session_that_has_ended_leaves_nothing_to_the_next_of_its_number(store: Store) -> None:
    store.save(whole())
    store.save(Checkpoint(ended=[1, 2]))
    assert store.load().sessions == []
    plain = SavedSession(1, Client.away("new", None, None, 5), 60, 0, (), {}, [], [])
    store.save(Checkpoint(sessions=[plain]))
    assert store.load().sessions == [plain]


def test_a_checkpoint_that_can_not_be_written_leaves_the_one_before(store: Store) -> None:
    store.save(whole())
    later = whole()
    later.position = 900
    later.wills[3] = will(3)._replace(payload=object())  # type: ignore[arg-type]
    with pytest.raises(StoreError, match="type 'object' is not supported"):
        store.save(later)
    assert store.load() == whole()
    store.save(Checkpoint(position=900))
    assert store.load().position == 900


@pytest.mark.parametrize("more", [0, -1])
def test_of_retained_messages_the_latest_are_read_for_which_there_is_room(
    store: Store, more: int
) -> None:
    messages = {f"t/{number}": message(number) for number in (1, 2, 3)}
    store.save(Checkpoint(retained=dict(messages)))
    entry = messages["t/1"].entry
    least = 2 * (len(entry.topic) + len(entry.payload) + len(msgpack.packb(entry.properties)))
    found = store.load(least + more)
    assert found.left_out == (1 if not more else 2)
    kept = ["t/2", "t/3"] if not more else ["t/3"]
    assert found.retained == {topic: messages[topic] for topic in kept}
    assert store.load(0).left_out == 3
    assert store.load().retained == messages


def test_marks_of_a_session_that_an_earlier_release_ended_are_removed_at_a_start(
    store: Store, tmp_path: Path
) -> None:
    path = tmp_path / "broker.sqlite3"
    store.save(whole())
    store.close()

    def marked() -> set[int]:
        with closing(sqlite3.connect(path)) as db:
            return {session for (session,) in db.execute("SELECT session FROM marked")}

    assert marked() == {1, 2}
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("DELETE FROM session WHERE number = 1")
    Store(path).close()
    assert marked() == {2}
