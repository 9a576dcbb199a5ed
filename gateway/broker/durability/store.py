"""Checkpoints in one SQLite file: sessions, subscriptions, what waits, what is retained.

The log is the truth; this file says what its beginning came to, so that a start reads the log
from the checkpoint's position on and segments before it may be deleted. A message that many wait
for is in it once. Each checkpoint writes only what has changed, in one transaction.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import msgpack
from mypy_extensions import mypyc_attr

from gateway.base.lasting_clock import Mark
from gateway.base.sqlite_trouble import could_not_look, is_passing
from gateway.broker.durability import packed, saved_marks, saved_places, spilled_messages
from gateway.broker.durability.offline_spill import SpillCandidates
from gateway.broker.durability.saved import (
    Checkpoint,
    SavedDelivery,
    SavedMessage,
    SavedPlaces,
    SavedSession,
    SavedTombstone,
)
from gateway.broker.durability.tables import FORMAT, NEEDED, RETAINED, SWEEP, TABLES, UNMARKED
from gateway.broker.hooks import Client
from gateway.broker.retained.retained_backlog import BacklogFilter, RetainedBacklog
from gateway.broker.sessions.subscription import Subscription
from tree_handler.batch import MAX_NUMBER, Entry, Epoch, Ref
from tree_handler.intervals import Intervals
from tree_handler.retained.hybrid_clock import RetainedVersion

_log = logging.getLogger(__name__)
_OF_SESSION = ("subscription", "delivery", saved_marks.TABLE, "away", "owed")


@mypyc_attr(native_class=False)
class StoreError(OSError):
    """The file can't be read or written; the message names it and the reason."""


@mypyc_attr(native_class=False)
class DamagedStoreError(StoreError):
    """The file is there and holds no checkpoint that can be read."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Store:
    """The SQLite file of one broker, for any thread; one call waits for another to end.

    Args:
        path: made if missing.
        sync: whether a checkpoint survives a power cut as soon as `save` returns. Without, it
            may be the one before that does, whose part of the log must then still be there.

    Attributes:
        has_spared: whether anything is put by of what the log has let go.

    Raises:
        DamagedStoreError: it is no such file, or of another format.
        StoreError: it can't be opened.

    """

    def __init__(self, path: Path, *, sync: bool = True) -> None:
        self._path = path
        self._one_call = threading.Lock()
        try:
            self._db, self._reader = [
                sqlite3.connect(path, check_same_thread=False, isolation_level=None)
                for _ in range(2)  # who reads while a checkpoint is written does not wait for it
            ]
        except sqlite3.Error as error:
            raise StoreError(f"{path}: {error}") from error
        try:
            self.has_spared = self._open(sync)
        except sqlite3.Error as error:
            self._close()
            kind = StoreError if is_passing(error) else DamagedStoreError
            raise kind(f"{path}: {error}") from error
        except StoreError:
            self._close()
            raise

    def _open(self, sync: bool) -> bool:
        """Have the tables there; return whether anything is put by."""
        db, path = self._db, self._path
        # Before anything is written: it may be another program's.
        found = db.execute("PRAGMA user_version").fetchone()[0]
        tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master")}
        is_ours = found == FORMAT and {"checkpoint", "message", "delivery"} <= tables
        if not is_ours and (tables or found):
            raise DamagedStoreError(f"{path}: format {found}, not {FORMAT}")
        if (why := db.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
            raise (StoreError if could_not_look(why) else DamagedStoreError)(f"{path}: {why}")
        db.execute("PRAGMA journal_mode = WAL")
        db.execute(f"PRAGMA synchronous = {'FULL' if sync else 'NORMAL'}")
        with _transaction(db):
            for statement in TABLES.split(";"):
                db.execute(statement)
            db.execute(UNMARKED)
            db.execute(f"PRAGMA user_version = {FORMAT}")
        return spilled_messages.has_any(db)

    def close(self) -> None:
        """Let go of the file, once nothing is being written."""
        with self._one_call:
            self._close()

    def _close(self) -> None:
        self._reader.close()
        self._db.close()

    # -- writing -------------------------------------------------------------------------------

    def save(self, checkpoint: Checkpoint, needed: SpillCandidates | None = None) -> None:
        """Write what has changed since the last one, all of it or nothing.

        Args:
            checkpoint: what has changed.
            needed: what is to be put by before the log lets it go.

        Raises:
            StoreError: disk full or failing; the file holds the checkpoint before. Or closed.
            LogError: what is to be put by can't be read.

        """
        with self._named(), self._one_call:
            with _transaction(self._db):
                self._write(checkpoint)
                if needed is not None:
                    spilled_messages.put_by(self._db, needed)
            self.has_spared = spilled_messages.has_any(self._db)

    def _write(self, checkpoint: Checkpoint) -> None:
        ids = self._write_messages(checkpoint.messages())
        for number in checkpoint.ended:
            self._clear("session", "number", number)
            self._clear_session(number)
        for session in checkpoint.sessions:
            self._write_session(session, ids)
        for topic, message in checkpoint.retained.items():
            self._clear("retained", "topic", topic)
            if message is not None:
                self._put("retained", topic, ids[message.ref])
        for topic, grave in checkpoint.tombstones.items():
            self._clear("tombstone", "topic", topic)
            if grave is not None:
                where = (grave.number, grave.qos, grave.since_us)
                self._put("tombstone", topic, *grave.version, *where)
        for topic, proof in checkpoint.proofs.items():
            self._clear("proven", "topic", topic)
            if proof is not None:
                self._put("proven", topic, proof)
        for number, will in checkpoint.wills.items():
            self._clear("will", "number", number)
            if will is not None:
                roles, properties = msgpack.packb(will.roles), msgpack.packb(will.properties)
                self._put("will", *will._replace(roles=roles, properties=properties))
        self._write_streams(checkpoint)
        self._db.execute(SWEEP)
        numbers = {} if checkpoint.mark is None else checkpoint.mark._asdict()
        numbers |= {"position": checkpoint.position, "next_session": checkpoint.next_session}
        numbers["spared_until"] = checkpoint.spared_until
        for name, value in numbers.items():
            self._put("checkpoint", name, value)

    def _write_streams(self, checkpoint: Checkpoint) -> None:
        self._db.execute("DELETE FROM delivered")  # some streams may be over
        self._db.execute("DELETE FROM lacking")
        for key, last in checkpoint.delivered.items():
            self._put("delivered", *key, last)
        for lack in checkpoint.lacking:
            self._put("lacking", *lack._replace(ranges=msgpack.packb(lack.ranges)))

    def _put(self, table: str, *row: object) -> int:
        """Write a row in place of the one that has its key; return its number."""
        marks = ", ".join("?" * len(row))
        done = self._db.execute(f"REPLACE INTO {table} VALUES ({marks})", row)  # noqa: S608  # ours
        return done.lastrowid or 0

    def _clear(self, table: str, column: str, key: object) -> None:
        self._db.execute(f"DELETE FROM {table} WHERE {column} = ?", (key,))  # noqa: S608  # ours

    def _clear_session(self, number: int) -> None:
        for table in (*saved_places.TABLES, *_OF_SESSION):
            self._clear(table, "session", number)

    def _write_messages(self, messages: Iterable[SavedMessage]) -> dict[Ref, int]:
        ids: dict[Ref, int] = {}
        for message in messages:
            if message.ref in ids:
                continue
            (origin, epoch), number = message.ref
            where = (origin, epoch, number)
            row = self._db.execute(
                "SELECT id FROM message WHERE origin = ? AND epoch = ? AND number = ?", where
            ).fetchone()
            if row is not None:
                ids[message.ref] = row[0]
                continue
            entry = message.entry
            ids[message.ref] = self._put(
                "message",
                None,
                *where,
                entry.topic,
                entry.payload,
                entry.qos,
                entry.retain,
                msgpack.packb(entry.properties),
                message.expires_us,
            )
        return ids

    def _write_session(self, session: SavedSession, ids: dict[Ref, int]) -> None:
        number, client, owed = session.number, session.client, session.owed
        roles, incoming = msgpack.packb(client.roles), msgpack.packb(session.incoming)
        self._put(
            "session",
            number,
            client.client_id,
            client.username,
            roles,
            client.version,
            session.expiry_s,
            session.last_packet_id,
            incoming,
        )
        self._clear_session(number)
        if session.away_us is not None:
            self._put("away", number, session.away_us)
        if owed is not None:
            given = msgpack.packb(list(owed.given))
            self._put("owed", number, msgpack.packb(owed.wanted), given)
        for name, s in session.subscriptions.items():
            options = (s.qos, s.no_local, s.retain_as_published, s.identifier)
            self._put("subscription", number, name, *options)
        for place, one in enumerate((*session.inflight, *session.queue)):
            if isinstance(one, SavedPlaces):
                saved_places.write(self._db, number, place, one)
            else:
                message, flags = None, one.flags
                if one.message is not None:
                    ref = one.message.ref
                    message = ids[ref]
                    flags = saved_marks.write(self._db, number, place, ref, flags)
                sent = (one.packet_id, place, message)
                self._put("delivery", number, *sent, flags, msgpack.packb(one.identifiers))

    # -- reading -------------------------------------------------------------------------------

    def load(self, retained_bytes: int | None = None) -> Checkpoint:
        """Return the last checkpoint; an empty one if there was none.

        Args:
            retained_bytes: of retained messages so much is read, the latest first; None for all.
                What is left out stays in the file until its topic changes.

        Raises:
            DamagedStoreError: what is there is no checkpoint.
            StoreError: it can't be read now, and may be whole.

        """
        try:
            return self._read(retained_bytes)
        except (
            sqlite3.Error,
            ValueError,
            TypeError,
            LookupError,
            msgpack.UnpackException,
        ) as error:
            kind = StoreError if is_passing(error) else DamagedStoreError
            raise kind(f"{self._path}: {error}") from error

    def _read(self, retained_bytes: int | None) -> Checkpoint:
        numbers = dict(self._rows("SELECT name, value FROM checkpoint"))
        mark = None
        if "lasting_us" in numbers:
            numbers["is_synchronised"] = bool(numbers["is_synchronised"])  # SQLite has no bool
            mark = Mark(*(numbers[name] for name in Mark._fields))
        away = dict(self._rows("SELECT session, since_us FROM away"))
        retained, left_out = self._retained(retained_bytes)
        begin = min(retained.values(), default=MAX_NUMBER)  # no row has so high a number
        with closing(self._db.execute(NEEDED, (begin,))) as rows:
            messages = {row[0]: packed.message(row) for row in rows}
        return Checkpoint(
            numbers.get("position", 0),
            numbers.get("next_session", 1),
            {(row[0], row[1]): row[2] for row in self._rows("SELECT * FROM delivered")},
            [
                self._read_session(row, messages, away.get(row[0]))
                for row in self._rows("SELECT * FROM session")
            ],
            [],
            {topic: messages[number] for topic, number in retained.items()},
            {
                row[0]: SavedTombstone(RetainedVersion(*row[1:5]), *row[5:])
                for row in self._rows("SELECT * FROM tombstone")
            },
            {row[0]: packed.will(row) for row in self._rows("SELECT * FROM will")},
            mark,
            dict(self._rows("SELECT topic, proof FROM proven")),
            numbers.get("spared_until", 0),
            [packed.lack(row) for row in self._rows("SELECT * FROM lacking")],
            left_out,
        )

    def _retained(self, bytes_max: int | None) -> tuple[dict[str, int], int]:
        """Return which message each topic has that fits, and how many do not."""
        found, size, left_out = dict[str, int](), 0, 0
        for topic, number, message_bytes in self._rows(RETAINED):
            size += message_bytes or 0  # none at all: it is not there, and missed where it is read
            if bytes_max is None or size <= bytes_max:
                found[topic] = number
            else:
                left_out += 1
        return found, left_out

    def _read_session(
        self, row: tuple[Any, ...], messages: dict[int, SavedMessage], away_us: int | None
    ) -> SavedSession:
        number, client_id, username, roles, version, expiry_s, last_packet_id, incoming = row
        subscriptions = {
            name: Subscription(qos, bool(no_local), bool(as_published), identifier)
            for _, name, qos, no_local, as_published, identifier in self._rows(
                "SELECT * FROM subscription WHERE session = ?", number
            )
        }
        marks = saved_marks.read(self._db, number)
        found: dict[int, SavedDelivery | SavedPlaces] = {}
        sent: list[SavedDelivery] = []
        for _, packet_id, place, message, flags, identifiers in self._rows(
            "SELECT * FROM delivery WHERE session = ? ORDER BY place", number
        ):
            of = None if message is None else messages[message]
            mark = 0 if of is None else saved_marks.mark_of(marks, place, of.ref)
            one = SavedDelivery(packet_id, of, flags | mark, packed.numbers(identifiers))
            if packet_id:
                sent.append(one)
            elif of is None:
                raise ValueError(f"session {number}: nothing waits at {place}")
            else:
                found[place] = one
        found |= saved_places.read(self._db, number, marks)
        return SavedSession(
            number,
            Client.away(client_id, username, msgpack.unpackb(roles, use_list=False), version),
            expiry_s,
            last_packet_id,
            packed.numbers(incoming),
            subscriptions,
            sent,
            [found[place] for place in sorted(found)],
            away_us=away_us,
            owed=self._owed(number),
        )

    def _owed(self, number: int) -> RetainedBacklog | None:
        for wanted, given in self._rows("SELECT wanted, given FROM owed WHERE session = ?", number):
            filters = msgpack.unpackb(wanted, use_list=False)
            return RetainedBacklog(
                tuple(BacklogFilter(*one) for one in filters), set(msgpack.unpackb(given))
            )
        return None

    def spared(self, key: Epoch, first: int, last: int) -> Iterator[tuple[int, Entry]]:
        """Yield messages of a stream that were put by, in their order; no checkpoint is waited for.

        Raises:
            StoreError: they can't be read.

        """
        with self._named():
            yield from spilled_messages.read(self._reader, key, first, last)

    def spared_numbers(self, key: Epoch) -> Intervals:
        """Return the numbers of a stream that were put by: see `queue_losses`."""
        with self._named(), self._one_call:
            return spilled_messages.numbers(self._db, key)

    @contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise StoreError(f"{self._path}: {error}") from error

    def _rows(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        with closing(self._db.execute(statement, values)) as cursor:
            return cursor.fetchall()


@contextmanager
def _transaction(db: sqlite3.Connection) -> Iterator[None]:
    """Commit all of it or nothing."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:  # some errors have ended it, and are to be told
            db.execute("ROLLBACK")
        raise
