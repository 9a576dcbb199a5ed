"""Wills of clients that are connected, or gone with a delay: they outlive a crash of the broker.

A will stands from the CONNECT that brought it until it is published or no longer wanted, and the
journal says both. That it was published is said together with the message itself: the frame before
its batch names it, and holds only if the batch is there. So a will that was in the log is not
published again after a crash, and one that was not is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from gateway.broker.durability.changes import Changes
from gateway.broker.durability.journal import Event, Journal
from gateway.broker.hooks import Client
from gateway.mqtt import Will


class SavedWill(NamedTuple):
    """A will as the journal and a checkpoint have it.

    Attributes:
        number: which one.
        client_id, username, roles, version: whose.
        topic, payload, qos, retain, properties: what is to be published.

    """

    number: int
    client_id: str
    username: str | None
    roles: tuple[str, ...] | None
    version: int
    topic: str
    payload: bytes
    qos: int
    retain: bool
    properties: dict[int, Any]

    @property
    def client(self) -> Client:
        """Return the client that left the will."""
        return Client.away(self.client_id, self.username, self.roles, self.version)

    @property
    def will(self) -> Will:
        """Return the message that is to be published."""
        return Will(self.topic, self.payload, self.qos, bool(self.retain), dict(self.properties))


class StandingWills:
    """The wills of one broker that may still have to be published.

    Args:
        journal: is told.
        changes: is told what the next checkpoint has to say of them.

    """

    def __init__(self, journal: Journal, changes: Changes) -> None:
        self._journal = journal
        self._changes = changes
        self._by_client: dict[str, SavedWill] = {}
        self._refused: dict[int, SavedWill] = {}
        """Those that were due and that the log did not take, by number."""
        self._next = 1

    def go_on(self, found: RestoredWills) -> None:
        """These stood when the process before ended."""
        for _, saved in sorted(found.standing.items()):
            if (earlier := self._by_client.get(saved.client_id)) is not None:
                self._refused[earlier.number] = earlier  # or its client's coming had ended it
            self._by_client[saved.client_id] = saved
        self._next = found.highest + 1

    def is_latest(self, saved: SavedWill) -> bool:
        """Return whether its client had no other since; if it had, the log had refused this one."""
        return saved.number not in self._refused

    def saved(self, numbers: Iterable[int]) -> dict[int, SavedWill | None]:
        """Return these wills; None for those that stand no more."""
        standing = self._refused | {saved.number: saved for saved in self._by_client.values()}
        return {number: standing.get(number) for number in numbers}

    def connected(self, client: Client, will: Will | None) -> None:
        """A client has come, with a will or without; the one before stands no more."""
        self.ended(client.client_id)
        if will is None:
            return
        saved = SavedWill(
            self._next,
            client.client_id,
            client.username,
            client.roles,
            client.version,
            will.topic,
            will.payload,
            will.qos,
            will.retain,
            dict(will.properties),
        )
        self._next += 1
        self._by_client[client.client_id] = saved
        self._changes.wills.add(saved.number)
        self._journal.noted(None, Event.WILL, *saved)

    def ended(self, client_id: str) -> None:
        """A client's will is not to be published."""
        saved = self.published(client_id)
        if saved is not None:
            self._journal.noted(None, Event.WILL_ENDED, saved.number)

    def published(self, client_id: str) -> SavedWill | None:
        """Return a client's will, of which the log says that it is published; None if it has
        none."""
        saved = self._by_client.pop(client_id, None)
        if saved is not None:
            self._changes.wills.add(saved.number)
        return saved

    def refused(self, saved: SavedWill) -> None:
        """The log did not take a will: it stands again, though its client may have another."""
        self._refused[saved.number] = saved
        self._changes.wills.add(saved.number)
        self._journal.noted(None, Event.WILL, *saved)  # a checkpoint may have said otherwise

    def tried_again(self, saved: SavedWill) -> None:
        """A will that the log refused goes into it once more, which is to say so."""
        self._refused.pop(saved.number, None)
        self._changes.wills.add(saved.number)

    def given_up(self, saved: SavedWill) -> None:
        """A will that was to be published is not to be any more."""
        self.tried_again(saved)
        if self._by_client.get(saved.client_id) is saved:
            del self._by_client[saved.client_id]
        self._journal.noted(None, Event.WILL_ENDED, saved.number)


class RestoredWills:
    """The wills that stand, as the history is read.

    Args:
        saved: those of the checkpoint.
        changes: is told what has changed since.

    Attributes:
        standing: by number.
        highest: the highest number there was.

    """

    def __init__(self, saved: Sequence[SavedWill], changes: Changes) -> None:
        self.standing = {one.number: one for one in saved}
        self.highest = max(self.standing, default=0)
        self._changes = changes
        self._announced: dict[int, int] = {}

    def event(self, kind: Event, fields: list[Any]) -> None:
        """The journal says that a will stands, or does no more."""
        number = fields[0]
        self.highest = max(self.highest, number)
        if kind is Event.WILL:
            self.standing[number] = SavedWill(*fields)
        else:
            self.standing.pop(number, None)
        self._changes.wills.add(number)

    def announced(self, message: int, number: int) -> None:
        """The batch to come has this will as this message, if it comes."""
        self._announced[message] = number

    def no_batch_came(self) -> None:
        """Forget what was announced: it was not published."""
        self._announced.clear()

    def batch(self, first: int, last: int) -> None:
        """The log has these messages."""
        for message in [one for one in self._announced if first <= one <= last]:
            number = self._announced.pop(message)
            self.standing.pop(number, None)
            self._changes.wills.add(number)
