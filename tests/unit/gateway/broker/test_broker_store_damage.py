"""A start with a file of checkpoints that is damaged, or somebody else's."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gateway.base.sqlite_trouble import could_not_look
from gateway.broker.durability.opening import open_store
from gateway.broker.durability.saved import (
    Checkpoint,
    SavedDelivery,
    SavedMessage,
    SavedPlaces,
    SavedSession,
)
from gateway.broker.durability.store import DamagedStoreError, Store, StoreError
from gateway.broker.hooks import Client
from gateway.broker.sessions.session import Subscription
from tree_handler.batch import Entry

KEY = ("gw", 3)


def checkpoint(position: int = 7, sessions: int = 40) -> Checkpoint:
    made = Checkpoint(position=position, next_session=sessions + 1, delivered={KEY: 90})
    for number in range(1, sessions + 1):
        message = SavedMessage((KEY, number), Entry(f"t/{number}", bytes(200), 1), None)
        made.sessions.append(
            SavedSession(
                number,
                Client.away(f"c{number}", None, None, 5),
                60,
                9,
                (3,),
                {"t/#": Subscription(1)},
                [SavedDelivery(9, message, 2, ()), SavedDelivery(8, None, 0, ())],
                [
                    SavedDelivery(0, message, 2, (5,)),
                    SavedPlaces(KEY, (50, 60, 62, 62), 2, (5, 6), None),
                    SavedDelivery(0, message, 4, ()),
                    SavedPlaces(("other", 9), (1, 1), 4, (), 10**12),
                    SavedPlaces(("other", 9), (2, 9), 4, (), None, ((2, 1, 10**12), (5, 0, 0))),
                ],
            )
        )
    return made


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A good file, of which nothing stands beside it."""
    path = tmp_path / "broker.sqlite3"
    store = Store(path)
    store.save(checkpoint())
    store.close()
    assert [one.name for one in tmp_path.iterdir()] == [path.name]
    return path


def change(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        for statement in statements:
            db.execute(statement)


def test_what_is_saved_comes_back_in_its_order(path: Path) -> None:
    store, found = open_store(path)
    store.close()
    assert found.sessions == checkpoint().sessions


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("left", ["nothing", "an empty file", "all"])
def test_a_file_that_is_missing_or_empty_is_told_unless_this_may_be_the_first_start(
    path: Path, left: str, caplog: pytest.LogCaptureFixture, *, is_first: bool
) -> None:
    if left == "nothing":
        path.unlink()
    elif left != "all":
        path.write_bytes(b"")
    store, found = open_store(path, is_first=is_first)
    store.close()
    assert len(found.sessions) == (40 if left == "all" else 0)
    told = "sessions and retained messages are known as far as the log tells them"
    is_told = not (is_first or left == "all")
    assert caplog.messages == ([f"{path}: missing or empty: {told}"] if is_told else [])


def test_another_checkpoint_replaces_what_waited_and_what_has_ended_goes(path: Path) -> None:
    store, _ = open_store(path)
    later = checkpoint(8, 2)
    later.sessions[0].queue.pop()
    later.ended.append(40)
    store.save(later)
    found = store.load()
    store.close()
    assert found.sessions == [*later.sessions, *checkpoint().sessions[2:39]]


def newest_aside(path: Path) -> Path:
    found = path.parent.glob(f"{path.name}.damaged-*[0-9]")
    return max(found, key=lambda one: int(one.name.rpartition("-")[2]))


def starts_anew(path: Path) -> None:
    """The start goes on without the file, which is put aside as it was."""
    before = path.read_bytes()
    store, found = open_store(path)
    assert found == Checkpoint()
    assert newest_aside(path).read_bytes() == before
    store.save(checkpoint())
    assert store.load().sessions == checkpoint().sessions
    store.close()


@pytest.mark.parametrize("data", [b"no database at all" * 99, b"\0" * 8192, b"SQLite format 3\0"])
def test_what_is_no_database_is_put_aside(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    starts_anew(path)


@pytest.mark.parametrize("part", [0.2, 0.5, 0.9])
def test_a_file_that_was_cut_off_is_put_aside(path: Path, part: float) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * part)])
    starts_anew(path)


def test_a_file_with_a_page_of_garbage_is_put_aside_whichever_it_is(path: Path) -> None:
    data = path.read_bytes()
    garbage = random.Random(0).randbytes(4096)
    for at in range(0, len(data), 4096):
        path.write_bytes(data[:at] + garbage + data[at + 4096 :])
        starts_anew(path)


@pytest.mark.parametrize("version", [0, 1, 77])
def test_another_programs_database_is_put_aside_and_nothing_is_written_to_it(
    tmp_path: Path, version: int
) -> None:
    path = tmp_path / "broker.sqlite3"
    change(
        path,
        "CREATE TABLE session (id TEXT, cookie TEXT)",
        "INSERT INTO session VALUES ('a', 'b')",
        f"PRAGMA user_version = {version}",
    )
    starts_anew(path)
    with closing(sqlite3.connect(newest_aside(path))) as db:
        tables = db.execute("SELECT name FROM sqlite_master").fetchall()
    assert tables == [("session",)]


WRONG = {
    "a message that is not there": "DELETE FROM message WHERE number = 5",
    "nothing where something waits": "UPDATE delivery SET message = NULL WHERE packet_id = 0",
    "identifiers that are none": "UPDATE delivery SET identifiers = x'c1'",
    "identifiers of a wrong type": "UPDATE delivery SET identifiers = x'a161'",
    "ranges that end before they begin": "UPDATE places SET ranges = x'920906'",
    "half a range": "UPDATE places SET ranges = x'9109'",
    "no ranges": "UPDATE places SET ranges = x'90'",
    "times of a kind that is none": "UPDATE timed SET times = x'9193020700'",
    "roles that are none": "UPDATE session SET roles = x'c1'",
    "a table that is gone": "DROP TABLE subscription",
    "a column more": "ALTER TABLE message ADD COLUMN more TEXT",
}


@pytest.mark.parametrize("statement", WRONG.values(), ids=WRONG)
def test_a_checkpoint_that_says_what_cannot_be_is_put_aside(path: Path, statement: str) -> None:
    change(path, statement)
    if "ALTER" in statement or "DROP" in statement:
        store, found = open_store(path)  # what it can still tell is told
        store.close()
        assert found.position in {0, 7}
        return
    starts_anew(path)


def test_a_file_that_cannot_be_read_is_let_go_of(path: Path) -> None:
    path.write_bytes(b"garbage" * 999)
    with pytest.raises(DamagedStoreError, match="broker"):
        Store(path)
    path.unlink()
    assert list(path.parent.iterdir()) == []


def failing_at(statement: str, code: int | None) -> type[sqlite3.Connection]:
    """Connections on which a statement meets an error of the disk."""

    class Failing(sqlite3.Connection):
        def execute(self, asked: str, *values: Any) -> sqlite3.Cursor:
            if asked.startswith(statement):
                error = sqlite3.OperationalError("disk I/O error")
                if code is not None:
                    error.sqlite_errorcode = code
                raise error
            return super().execute(asked, *values)

    return Failing


@pytest.mark.parametrize(
    "code",
    [
        *(sqlite3.SQLITE_IOERR_READ, sqlite3.SQLITE_CANTOPEN),
        *(sqlite3.SQLITE_PROTOCOL, sqlite3.SQLITE_SCHEMA, None),
    ],
)
@pytest.mark.parametrize(
    "statement", ["PRAGMA quick", "SELECT * FROM message", "SELECT * FROM will", "BEGIN"]
)
def test_a_file_that_can_not_be_read_now_is_left_as_it_is(
    path: Path, monkeypatch: pytest.MonkeyPatch, statement: str, code: int
) -> None:
    with monkeypatch.context() as patched:
        failing = failing_at(statement, code)
        patched.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=failing))
        with pytest.raises(StoreError, match="disk I/O error") as raised:
            open_store(path)
        assert not isinstance(raised.value, DamagedStoreError)
    assert [one.name for one in path.parent.iterdir() if "damaged" in one.name] == []
    store, found = open_store(path)
    store.close()
    assert found.sessions == checkpoint().sessions


@pytest.mark.parametrize(
    ("checked", "is_passing"),
    [
        ("Tree 3 page 5: unable to get the page. error code=10", True),
        ("Tree 3 page 5: unable to get the page. error code=266", True),
        ("Tree 3 page 5: unable to get the page. error code=522", False),
        ("Tree 3 page 5: btreeInitPage() returns error code 11", False),
        ("row 1 missing from index sqlite_autoindex_session_1", False),
    ],
)
def test_a_check_that_could_not_read_a_page_says_nothing_of_the_file(
    checked: str, *, is_passing: bool
) -> None:
    assert could_not_look(checked) is is_passing


def test_a_file_in_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    path = tmp_path / "gone" / "broker.sqlite3"
    with pytest.raises(StoreError, match=f"^{path}: unable to open database file$"):
        Store(path)
