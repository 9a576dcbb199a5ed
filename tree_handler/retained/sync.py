"""Brings a gateway the retained messages that its log can't bring any more.

The log is the way of every message, retained or not. But logs are trimmed, and retained messages
last: so neighbours compare what they have, and each fetches what it lacks.

    ROOT    one hash of everything; sent when a link is up, and when what changed has settled
    DIGEST  a hash for each bucket of topics; to a neighbour whose root differs
    ASK     versions of the topics in differing buckets, from a place on, as many as fit
    ANSWER  what is newer or unlisted up to a place; the next ASK begins behind it

Each side asks for itself, one neighbour at a time and one ASK at a time. Where roots are equal that
is all that is said, and a still network says nothing.

What is fetched meets what the log brings. Nothing may reach a client twice, nor an old message
of an origin behind a newer one, so what is done with a newer version depends on the log:

* the log has handed out that number and this gateway has not got it: it was lost to the log
  (trimmed before it came). It is retained and given to subscribers: it is news.
* the log may still bring it, for it is here behind a gap or a neighbour can send it: it is left
  to the log for a while, and looked at again.
* nobody in reach can send it, or a gap has not closed for `PATIENCE_S`: it is retained and not
  given to subscribers. They get it when the log brings it after all, or gives it up.

While the log is catching up nothing is compared, for a time: most of what differs is on its way.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any, Protocol

from tree_handler.batch import Epoch
from tree_handler.errors import ProtocolError
from tree_handler.retained.hybrid_clock import RetainedVersion
from tree_handler.retained.message import Retained
from tree_handler.retained.sync_wire import (
    ASK_TOPICS,
    END,
    START,
    Place,
    SyncKind,
    ask_of,
    digest_of,
    pack,
    place_of,
    unpack,
)
from tree_handler.retained.versions import BUCKETS, HASH_BYTES, RetainedVersions, differing

ANSWER_BYTES = 64 << 10
"""An ANSWER ends when it is so large; one message may be larger."""
ANSWER_TOPICS = 500
"""And when so many topics were looked at."""
POLL_S = 0.25
"""While the log catches up, it is looked at so often."""
ASK_TIMEOUT_S = 30.0
"""An ASK without an ANSWER is given up."""
PATIENCE_S = 10.0
"""The log is left to bring what is on its way for so long."""
CATCH_UP_S = 60.0
"""A log that catches up is waited for so long."""
PUT_OFF_MAX = 10_000
"""Messages left to the log that are remembered."""


class Log(Protocol):
    """What is asked of replication."""

    def handed_out(self, stream: Epoch) -> int:
        """Up to which number local clients have got a stream, or what was given up counts as."""

    def may_come(self, stream: Epoch, number: int) -> bool:
        """Whether a number is here behind a gap, or a neighbour can send it."""

    def is_catching_up(self) -> bool:
        """Whether a neighbour has what this gateway lacks and is asking for."""


class RetainedSource(Protocol):
    """The retained messages of a gateway."""

    @property
    def versions(self) -> RetainedVersions:
        """Their versions."""

    def told(self, topic: str, now: float) -> Retained | None:
        """What a neighbour is told of a topic; None if there is nothing to tell."""

    def learn(self, retained: Retained, now: float, *, is_news: bool) -> bool:
        """Take a newer version, and give it to subscribers if it is news; False over a limit."""

    def announce(self, topic: str, now: float) -> None:
        """The log gave up what was taken and was no news then: it is, if it has not come since."""


@dataclass(frozen=True, slots=True)
class SendRetained:
    """SendRetained this to the neighbour."""

    link: int
    payload: bytes


@dataclass(slots=True)
class _Link:
    """What is known of one neighbour.

    Attributes:
        told_changes: `RetainedVersions.changes` when it was told the root; -1 for never.
        differs: its root is another one, and its digest is wanted.
        digest: its digest, until it is compared.

    """

    told_changes: int = -1
    differs: bool = False
    digest: bytes | None = None


@dataclass(slots=True)
class _Session:
    """What is being fetched, from which neighbour.

    Attributes:
        after: behind which place was asked last.
        refused: a limit kept something out; only known topics are asked for from then on.

    """

    link: int
    buckets: list[int]
    asked_at: float
    after: Place = START
    refused: bool = False


@dataclass(slots=True)
class _PutOff:
    """A message that was left to the log: who told of it, and since when it waits."""

    link: int
    stream: Epoch
    number: int
    version: RetainedVersion
    since: float
    is_overdue: bool = False


@dataclass(slots=True)
class SyncCounters:
    """What happened, for status and metrics."""

    sent: int = 0
    fetched: int = 0
    news: int = 0
    left_to_log: int = 0
    refused: int = 0


class RetainedSync:
    """One gateway's side.

    Args:
        store: its retained messages.
        log: what replication knows.
        settle_s: what has changed is told when nothing changed for so long.

    """

    def __init__(self, store: RetainedSource, log: Log, settle_s: float = 5.0) -> None:
        self.counters = SyncCounters()
        self._store = store
        self._versions = store.versions
        self._log = log
        self._settle_s = settle_s
        self._links: dict[int, _Link] = {}
        self._session: _Session | None = None
        self._put_off: dict[str, _PutOff] = {}
        self._silent: dict[str, tuple[Epoch, int, RetainedVersion]] = {}
        """What was taken without telling subscribers."""
        self._seen_changes = -1
        self._changed_at = -inf
        self._behind_since: float | None = None
        self._look_at = inf

    # -- links ---------------------------------------------------------------------------------

    def link_up(self, link: int, now: float) -> None:
        """A neighbour is there; it is told the root when the log has caught up."""
        self._links[link] = _Link()
        self._look_at = min(self._look_at, now + POLL_S)

    def link_down(self, link: int, now: float) -> None:
        """The neighbour is gone; others may have what it was asked for."""
        self._links.pop(link, None)
        if self._session is not None and self._session.link == link:
            self._session = None
            self._look_at = min(self._look_at, now + POLL_S)

    def receive(self, link: int, payload: bytes, now: float) -> list[SendRetained]:
        """Take a neighbour's message.

        Raises:
            ProtocolError: it is none.

        """
        state = self._links.get(link)
        if state is None:
            return []
        kind, *fields = unpack(payload)
        match kind:
            case SyncKind.ROOT:
                state.differs = digest_of(fields[0], HASH_BYTES) != self._versions.root()
                self._look_at = min(self._look_at, now + POLL_S)
                return []
            case SyncKind.DIGEST:
                return self._told_digest(link, state, fields, now)
            case SyncKind.ASK:
                return [self._answer(link, fields, now)]
            case SyncKind.ANSWER:
                return self._answered(link, fields, now)
        raise ProtocolError("message of retained topics", kind)

    @property
    def is_fetching(self) -> bool:
        """Whether a neighbour has still to answer an ASK."""
        return self._session is not None

    # -- time ----------------------------------------------------------------------------------

    def next_timer(self) -> float:
        """When `handle_timer` is due."""
        return self._look_at

    def handle_timer(self, now: float) -> list[SendRetained]:
        """Tell neighbours what they have not been told; go on with what waits."""
        if now < self._look_at:
            return []
        changes = self._versions.changes
        if changes != self._seen_changes:
            self._seen_changes, self._changed_at = changes, now
        if self._session is not None and now - self._session.asked_at > ASK_TIMEOUT_S:
            self._session = None
        if not self._links:
            self._put_off.clear()
            self._look_at = inf
            return []
        if self._waits_for_log(now):
            self._look_at = now + POLL_S
            return []
        self._look_at = now + self._settle_s
        self._look_again(now)
        has_settled = now - self._changed_at >= self._settle_s
        return [
            action
            for link, state in self._links.items()
            for action in self._say(link, state, now, has_settled=has_settled)
        ]

    def _say(self, link: int, state: _Link, now: float, *, has_settled: bool) -> list[SendRetained]:
        actions = self._compare(link, state, now)
        changes = self._versions.changes
        if state.told_changes == -1 or (state.told_changes != changes and has_settled):
            state.told_changes = changes
            actions.append(SendRetained(link, pack((int(SyncKind.ROOT), self._versions.root()))))
        if state.differs and self._session is None:
            state.differs = False
            actions.append(SendRetained(link, self._digest(wanted=True)))
        return actions

    def _waits_for_log(self, now: float) -> bool:
        if not self._log.is_catching_up():
            self._behind_since = None
            return False
        if self._behind_since is None:
            self._behind_since = now
        return now - self._behind_since < CATCH_UP_S

    def _look_again(self, now: float) -> None:
        """Ask again for what was left to the log and does not come by it."""
        for topic, (stream, number, version) in list(self._silent.items()):
            if self._versions.version(topic) != version:
                del self._silent[topic]
            elif number <= self._log.handed_out(stream):
                del self._silent[topic]
                self._store.announce(topic, now)
        for topic, one in list(self._put_off.items()):
            is_moot = one.link not in self._links or not self._versions.is_news(topic, one.version)
            if is_moot or one.is_overdue:
                del self._put_off[topic]
            elif not self._is_left_to_log(one.stream, one.number):
                del self._put_off[topic]
                self._links[one.link].differs = True
            elif now - one.since >= PATIENCE_S:
                one.is_overdue = True
                self._links[one.link].differs = True

    # -- asking --------------------------------------------------------------------------------

    def _digest(self, *, wanted: bool) -> bytes:
        return pack((int(SyncKind.DIGEST), self._versions.digest(), wanted))

    def _told_digest(
        self, link: int, state: _Link, fields: list[Any], now: float
    ) -> list[SendRetained]:
        state.digest = digest_of(fields[0], BUCKETS * HASH_BYTES)
        self._look_at = min(self._look_at, now + POLL_S)
        answer = [SendRetained(link, self._digest(wanted=False))] if fields[1] else []
        if self._session is not None and self._session.link == link:
            state.digest = None  # what is under way knows as much, but for what will be told
        return answer + self._compare(link, state, now)

    def _compare(self, link: int, state: _Link, now: float) -> list[SendRetained]:
        """Begin to fetch what the neighbour's digest says is lacking here, if it is time."""
        if state.digest is None or self._session is not None or self._waits_for_log(now):
            return []
        digest, state.digest = state.digest, None
        buckets = differing(digest, self._versions.digest())
        if not buckets:
            return []
        self._session = _Session(link, buckets, now)
        return [self._ask(self._session, START, now)]

    def _ask(self, session: _Session, after: Place, now: float) -> SendRetained:
        session.asked_at, session.after = now, after
        listed: list[tuple[Any, ...]] = []
        until, last = END, after
        for bucket, topic, version in self._versions.topics_from(session.buckets, after):
            if len(listed) == ASK_TOPICS:
                until = last
                break
            listed.append((topic, *version))
            last = (bucket, topic)
        fields = (session.buckets, after, until, not session.refused, listed)
        return SendRetained(session.link, pack((int(SyncKind.ASK), *fields)))

    def _answered(self, link: int, fields: list[Any], now: float) -> list[SendRetained]:
        session = self._session
        if session is None or session.link != link:
            return []  # it comes too late
        upto = place_of(fields[0])
        if upto <= session.after:
            raise ProtocolError("answer that goes back, retained topics", upto)
        for row in fields[1]:
            self._take(session, Retained.of(row), now)
        if upto < END:
            return [self._ask(session, upto, now)]
        self._session = None
        self._look_at = min(self._look_at, now + POLL_S)
        return []

    def _take(self, session: _Session, retained: Retained, now: float) -> None:
        if not self._versions.is_news(retained.topic, retained.version):
            return
        stream, number = retained.stream, retained.number
        waited = self._put_off.get(retained.topic)
        is_overdue = waited is not None and waited.is_overdue
        if self._is_left_to_log(stream, number) and not is_overdue:
            if waited is None and len(self._put_off) < PUT_OFF_MAX:
                self.counters.left_to_log += 1
                one = _PutOff(session.link, stream, number, retained.version, now)
                self._put_off[retained.topic] = one
            return
        is_news = number <= self._log.handed_out(stream)
        if self._store.learn(retained, now, is_news=is_news):
            if not is_news and len(self._silent) < PUT_OFF_MAX:
                self._silent[retained.topic] = (stream, number, retained.version)
            self.counters.fetched += 1
            self.counters.news += is_news
        else:
            self.counters.refused += 1
            session.refused = True

    def _is_left_to_log(self, stream: Epoch, number: int) -> bool:
        return number > self._log.handed_out(stream) and self._log.may_come(stream, number)

    # -- answering -----------------------------------------------------------------------------

    def _answer(self, link: int, fields: list[Any], now: float) -> SendRetained:
        buckets, after, until, wants_unlisted, listed = ask_of(fields)
        rows: list[tuple[Any, ...]] = []
        size = 0
        upto, last = until, after
        topics = self._versions.topics_from(buckets, after)
        for looked, (bucket, topic, version) in enumerate(topics):
            if (bucket, topic) > until:
                break
            if looked == ANSWER_TOPICS or size >= ANSWER_BYTES:
                upto = last
                break
            last = (bucket, topic)
            known = listed.get(topic)
            if (known is None and wants_unlisted) or (known is not None and version > known):
                told = self._store.told(topic, now)
                if told is not None:
                    rows.append(told.row())
                    size += told.size_bytes
        self.counters.sent += len(rows)
        return SendRetained(link, pack((int(SyncKind.ANSWER), upto, rows)))
