"""Content of a checkpoint: the broker's durable state as plain values.

The event loop makes it and recovery reads it; `store` knows how it looks in SQLite.
"""

from __future__ import annotations

from dataclasses import field

from gateway.base.lasting_clock import Mark
from gateway.broker.durability.delivery_gaps import SavedGap
from gateway.broker.durability.standing_wills import SavedWill
from gateway.broker.hooks import Client
from gateway.broker.retained.retained_backlog import RetainedBacklog
from gateway.broker.sessions.subscription import Subscription
from light_dataclasses import dataclass
from tree_handler.batch import Entry, Epoch, Ref
from tree_handler.retained.hybrid_clock import RetainedVersion


@dataclass(frozen=True, slots=True)
class SavedMessage:
    """A logged message that some session or topic still needs.

    Attributes:
        ref: where it stands in the log, or stood before the log was trimmed.
        entry: the message.
        expires_us: when it expires, on the lasting clock, or None.

    """

    ref: Ref
    entry: Entry
    expires_us: int | None


@dataclass(frozen=True, slots=True)
class SavedTombstone:
    """A topic whose retained message was deleted or has expired.

    Attributes:
        version, number, qos: see `tree_handler.retained.tombstones.Tombstone`.
        since_us: since when, on the lasting clock.

    """

    version: RetainedVersion
    number: int
    qos: int | None
    since_us: int


@dataclass(frozen=True, slots=True)
class SavedDelivery:
    """A message on its way to one session.

    Attributes:
        packet_id: the identifier under which it was sent, 0 while it waits.
        message: None once it is released (QoS 2, after PUBREC).
        flags: what it is delivered with.
        identifiers: subscription identifiers.

    """

    packet_id: int
    message: SavedMessage | None
    flags: int
    identifiers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SavedPlaces:
    """Messages that wait for one session in the log (`places.Places`).

    Attributes:
        key: their stream.
        ranges: first and last numbers in turn.
        flags: what they are delivered with.
        identifiers: subscription identifiers.
        expires_us: when they expire, on the lasting clock, in a file of a release that knew no
            `times`; else None.
        times: how they expire and a time on the lasting clock (`places.WaitingRun`), each with the
            number from which on it holds.

    """

    key: Epoch
    ranges: tuple[int, ...]
    flags: int
    identifiers: tuple[int, ...]
    expires_us: int | None = None
    times: tuple[tuple[int, int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class SavedSession:
    """A durable session.

    Attributes:
        number: see `journal.SessionRecord`.
        client: whose it is.
        expiry_s: how long it is kept when its client has gone.
        last_packet_id: the last that was used towards the client.
        incoming: QoS 2 identifiers of the client's that are not released.
        subscriptions: by filter.
        inflight: all that was sent and not acknowledged to the end, in order.
        queue: what waits, in order.
        away_us: when its client went, on the lasting clock; None if it was there.
        owed: what is retained for it and was not sent yet.

    """

    number: int
    client: Client
    expiry_s: int
    last_packet_id: int
    incoming: tuple[int, ...]
    subscriptions: dict[str, Subscription]
    inflight: list[SavedDelivery]
    queue: list[SavedDelivery | SavedPlaces]
    away_us: int | None = None
    owed: RetainedBacklog | None = None


@dataclass(slots=True)
class Checkpoint:
    """A broker's durable state at one position of the log.

    Attributes:
        position: what stands behind it in the log comes on top.
        next_session: the number of the next new session.
        delivered: the last number given to local sessions, by origin and epoch.
        sessions: those that have changed since the checkpoint before; all when read back.
        ended: numbers of sessions that have ended since.
        retained: by topic those that have changed since, None where there is none any more; all
            when read back.
        tombstones: the same of deleted topics.
        proofs: the same of what proves either (`RetainedVersions.saved_proofs`).
        wills: the same of wills, by number.
        mark: the time; None in one of a version that did not write it.
        spared_until: before this position the log may let go of what waits
            (`offline_spill.OfflineSpill`).
        lacking: what sessions were not given though ``delivered`` is past it, all of it.
        left_out: retained messages that were not read, for want of room; the file keeps them.

    """

    position: int = 0
    next_session: int = 1
    delivered: dict[Epoch, int] = field(default_factory=dict)
    sessions: list[SavedSession] = field(default_factory=list)
    ended: list[int] = field(default_factory=list)
    retained: dict[str, SavedMessage | None] = field(default_factory=dict)
    tombstones: dict[str, SavedTombstone | None] = field(default_factory=dict)
    wills: dict[int, SavedWill | None] = field(default_factory=dict)
    mark: Mark | None = None
    proofs: dict[str, bytes | None] = field(default_factory=dict)
    spared_until: int = 0
    lacking: list[SavedGap] = field(default_factory=list)
    left_out: int = 0

    def messages(self) -> list[SavedMessage]:
        """Return all messages that it names, some perhaps more than once."""
        found = [message for message in self.retained.values() if message is not None]
        for session in self.sessions:
            for delivery in (*session.inflight, *session.queue):
                if isinstance(delivery, SavedDelivery) and delivery.message is not None:
                    found.append(delivery.message)
        return found
