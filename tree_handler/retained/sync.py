"""Brings a gateway the retained messages that its log can't bring any more.

The log is the way of every message, retained or not. But logs are trimmed, and retained messages
last: so neighbours compare what they have, and each fetches what it lacks.

    ROOT    one hash of everything; sent when a link is up, and when what changed has settled
    DIGEST  a hash for each bucket of topics; to a neighbour whose root differs
    ASK     versions of the topics in differing buckets, from a place on, as many as fit
    ANSWER  what is newer or unlisted up to a place; the next ASK begins behind it

Each side asks for itself, one neighbour at a time, each in its turn, and one ASK at a time. Where
roots are equal that is all that is said, and a still network says nothing.

What is fetched meets what the log brings. Nothing may reach a client twice, nor an old message
of an origin behind a newer one, so what is done with a newer version depends on the log:

* the log has handed out that number and this gateway has not got it: it was lost to the log
  (trimmed before it came). It is retained and given to subscribers: it is news.
* the log may still bring it, for it is here behind a gap or a neighbour can send it: it is left
  to the log for a while, and looked at again.
* nobody in reach can send it, or a gap has not closed for `left_to_log.PATIENCE_S`: it is
  retained and not given to subscribers. They get it when the log brings it after all, or gives
  it up.

While the log is catching up nothing is compared, for a time: most of what differs is on its way.

Where gateways sign, each message goes with a proof of its origin (`proof`), and nothing is taken
without one. What is here without a proof, of a release that had none, is kept and told to nobody
who would not take it; neighbours are asked for proofs, which begin at the origin, who signs
whatever is its own. So they are where the key of a proof is known no more (`kept_proofs`).
"""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import Any

from tree_handler.errors import ProtocolError
from tree_handler.proof import Verdict
from tree_handler.retained.kept_proofs import KeptProofs
from tree_handler.retained.left_to_log import LeftToLog
from tree_handler.retained.message import Retained
from tree_handler.retained.proof import OWN, RetainedProofs
from tree_handler.retained.sync_state import (
    TURN_S,
    UNKNOWN_AGAIN_MAX_S,
    Log,
    RefusedRetained,
    RetainedSource,
    SendRetained,
    SyncCounters,
    SyncLink,
    SyncSession,
)
from tree_handler.retained.sync_wire import (
    ASK_CHARACTERS,
    ASK_TOPICS,
    END,
    PlaceInSync,
    SyncKind,
    Wants,
    ask_of,
    digest_of,
    pack,
    place_of,
    unpack,
)
from tree_handler.retained.versions import BUCKETS, HASH_BYTES, differing

ANSWER_BYTES = 64 << 10
"""An ANSWER ends when it is so large; one message may be larger."""
ANSWER_TOPICS = 500
"""An answer also ends when so many topics were looked at."""
ANSWER_PROVEN = 64
"""An answer also ends when it has so many with proofs: checking each takes its time."""
POLL_S = 0.25
"""While the log catches up, it is looked at so often."""
ASK_TIMEOUT_S = 30.0
"""For so long an ASK without an ANSWER keeps others from being asked. What it brings is taken
whenever it comes."""
UNSETTLED_S = 30.0
"""The longest time before a change is told, however much changes meanwhile."""
CATCH_UP_S = 60.0
"""A log that catches up is waited for so long."""
REFUSED_MAX = 100
"""Messages that are not believed and wait to be told of."""


class RetainedSync:
    """One gateway's side.

    Args:
        store: its retained messages.
        log: what replication knows.
        settle_s: what has changed is told when nothing changed for so long, or a neighbour was
            told nothing for `UNSETTLED_S`.
        proofs: makes and checks proofs; None where gateways don't sign.

    """

    def __init__(
        self,
        store: RetainedSource,
        log: Log,
        settle_s: float = 5.0,
        proofs: RetainedProofs | None = None,
    ) -> None:
        self.counters = SyncCounters()
        self._proofs = proofs
        self._refused: list[RefusedRetained] = []
        self._store = store
        self._versions = store.versions
        self._log = log
        self._settle_s = settle_s
        self._links: dict[int, SyncLink] = {}
        self._session: SyncSession | None = None
        self._left = LeftToLog(store, log)
        self._kept = None if proofs is None else KeptProofs(store.versions, proofs)
        self._seen_changes = -1
        self._changed_at = -inf
        self._behind_since: float | None = None
        self._look_at = inf

    # -- links ---------------------------------------------------------------------------------

    def link_up(self, link: int, now: float) -> None:
        """A neighbour is there; it is told the root when the log has caught up."""
        self._links[link] = SyncLink()
        self._look_at = min(self._look_at, now + POLL_S)

    def link_down(self, link: int, now: float) -> None:
        """The neighbour is gone; others may have what it was asked for."""
        self._links.pop(link, None)
        if self._session is not None and self._session.link == link:
            self._session = None
            self._look_at = min(self._look_at, now + POLL_S)

    def receive(
        self, link: int, payload: bytes, now: float, waited_s: float = 0.0
    ) -> list[SendRetained]:
        """Take a neighbour's message, which was under way for so long.

        Raises:
            ProtocolError: it is none.

        """
        state = self._links.get(link)
        if state is None:
            return []
        kind, *fields = unpack(payload)
        match kind:
            case SyncKind.ROOT:
                state.told_root(digest_of(fields[0], HASH_BYTES), self._versions.root())
                self._look_at = min(self._look_at, now + POLL_S)
                return []
            case SyncKind.DIGEST:
                return self._told_digest(link, state, fields, now)
            case SyncKind.ASK:
                return [self._answer(link, fields, now)]
            case SyncKind.ANSWER:
                return self._answered(link, state, fields, now, waited_s)
        raise ProtocolError("message of retained topics", kind)

    def take_refused(self) -> list[RefusedRetained]:
        """Return what was told and not believed since this was asked last.

        `REFUSED_MAX` at most.
        """
        refused, self._refused = self._refused, []
        return refused

    @property
    def is_fetching(self) -> bool:
        """Return whether a neighbour has still to answer an ASK."""
        return self._session is not None or any(link.late for link in self._links.values())

    # -- time ----------------------------------------------------------------------------------

    def next_timer(self) -> float:
        """Return when `handle_timer` is due."""
        return self._look_at

    def handle_timer(self, now: float) -> list[SendRetained]:
        """Tell neighbours what they have not been told; go on with what waits."""
        if now < self._look_at:
            return []
        changes = self._versions.changes
        if changes != self._seen_changes:
            self._seen_changes, self._changed_at = changes, now
        session = self._session
        if session is not None and now - session.asked_at > ASK_TIMEOUT_S:
            self._session = None
            self._links[session.link].is_late(session, now)
        if not self._links:
            self._left.clear()
            self._look_at = inf
            return []
        if self._waits_for_log(now):
            self._look_at = now + POLL_S
            return []
        self._look_at = now + self._settle_s
        for link in self._left.look_again(now):
            if (told := self._links.get(link)) is not None:
                told.differs = True
        if self._kept is not None and self._kept.look():
            for state in self._links.values():
                state.may_have_proofs()
        has_settled = now - self._changed_at >= self._settle_s
        return [
            action
            for link, state in self._links.items()
            for action in self._say(link, state, now, has_settled=has_settled)
        ]

    def _say(
        self, link: int, state: SyncLink, now: float, *, has_settled: bool
    ) -> list[SendRetained]:
        if now >= state.again_at:
            state.differs, state.again_at = True, inf
            state.again_wait_s = min(2 * state.again_wait_s, UNKNOWN_AGAIN_MAX_S)
        actions = self._compare(link, state, now)
        changes = self._versions.changes
        is_due = has_settled or now - state.told_at >= UNSETTLED_S
        if state.told_changes == -1 or (state.told_changes != changes and is_due):
            root, proven = self._versions.root(), self._versions.proven
            told = SendRetained(link, pack((int(SyncKind.ROOT), root)))
            actions += [told] * state.tells(root, changes, proven, now)
        may_ask = self._session is None and state.may_be_asked(now)
        if state.differs and may_ask:
            state.differs = False
            actions.append(SendRetained(link, self._digest(wanted=True)))
        if may_ask and self._proofs is not None and now >= state.proofs_at:
            actions += self._seek_proofs(link, state, now)
        return actions

    def _seek_proofs(self, link: int, state: SyncLink, now: float) -> list[SendRetained]:
        """Ask for the topics that have no proof here, as if they were lacking."""
        buckets = self._versions.unproven
        if not buckets:
            return []
        state.asks_for_proofs(now)
        self._session = SyncSession(
            link, buckets, now, seeks_proofs=True, turn_ends_at=now + TURN_S
        )
        return [self._ask(self._session, state.goes_on_from, now)]

    def _waits_for_log(self, now: float) -> bool:
        if not self._log.is_catching_up():
            self._behind_since = None
            return False
        if self._behind_since is None:
            self._behind_since = now
        return now - self._behind_since < CATCH_UP_S

    # -- asking --------------------------------------------------------------------------------

    def _digest(self, *, wanted: bool) -> bytes:
        return pack((int(SyncKind.DIGEST), self._versions.digest(), wanted))

    def _told_digest(
        self, link: int, state: SyncLink, fields: list[Any], now: float
    ) -> list[SendRetained]:
        state.digest = digest_of(fields[0], BUCKETS * HASH_BYTES)
        self._look_at = min(self._look_at, now + POLL_S)
        answer = [SendRetained(link, self._digest(wanted=False))] if fields[1] else []
        session = self._session
        if session is not None and session.link == link and not session.seeks_proofs:
            state.digest = None  # what is under way knows as much, but for what will be told
        return answer + self._compare(link, state, now)

    def _compare(self, link: int, state: SyncLink, now: float) -> list[SendRetained]:
        """Begin to fetch what the neighbour's digest says is lacking here, if it is time."""
        if state.digest is None or self._session is not None or not state.may_be_asked(now):
            return []
        if self._waits_for_log(now):
            return []
        digest, state.digest = state.digest, None
        buckets = differing(digest, self._versions.digest())
        if not buckets:
            return []
        self._session = SyncSession(link, buckets, now, turn_ends_at=now + TURN_S)
        return [self._ask(self._session, state.goes_on_from, now)]

    def _ask(self, session: SyncSession, after: PlaceInSync, now: float) -> SendRetained:
        session.asked_at, session.after = now, after
        listed: list[tuple[Any, ...]] = []
        until, last, characters = END, after, 0
        for bucket, topic, version in self._versions.topics_from(session.buckets, after):
            if len(listed) == ASK_TOPICS or characters >= ASK_CHARACTERS:
                until = last
                break
            last = (bucket, topic)
            if self._proofs is None or not self._versions.lacks_proof(topic):
                listed.append((topic, *version))
                characters += len(topic)
        wants = Wants(not session.refused, self._proofs is not None).field()
        fields = (session.buckets, after, until, wants, listed)
        return SendRetained(session.link, pack((int(SyncKind.ASK), *fields)))

    def _answered(
        self, link: int, state: SyncLink, fields: list[Any], now: float, waited_s: float
    ) -> list[SendRetained]:
        session = late = state.late_answer()
        if late is None:
            session = self._session
        if session is None or session.link != link:
            return []
        upto = place_of(fields[0])
        if upto <= session.after:
            if late is not None:
                return []
            raise ProtocolError("answer that goes back, retained topics", upto)
        before = self.counters.of_use
        for row in fields[1]:
            self._take(session, Retained.of(row).later(waited_s), now)
        session.has_brought(anything=self.counters.of_use > before)
        if late is not None:
            if self._session is not None:
                return []  # it is compared with again
            self._session = session
        if upto < END and not session.is_fruitless:
            if not self._is_turn_over(session, now):
                return [self._ask(session, upto, now)]
            session.after, session.gives_way = upto, True
        self._session = None
        state.has_ended(session, now)
        self._look_at = min(self._look_at, now + POLL_S)
        return []

    def _is_turn_over(self, session: SyncSession, now: float) -> bool:
        """Return whether another neighbour waits, and this one was asked for long enough."""
        return now >= session.turn_ends_at and any(
            link != session.link and state.waits and state.may_be_asked(now)
            for link, state in self._links.items()
        )

    def _take(self, session: SyncSession, retained: Retained, now: float) -> None:
        if not self._versions.is_news(retained.topic, retained.version):
            self._take_proof(retained)
            return
        if not self._store.may_speak(retained):
            self.counters.forbidden += 1
            session.forbidden = True
            return
        if not self._is_believed(session.link, retained, now):
            return
        if self._left.is_left(retained):
            self.counters.left_to_log += self._left.leave(retained, session.link, now)
            return
        is_news = retained.number <= self._log.handed_out(retained.stream)
        if self._store.learn(retained, now, is_news=is_news):
            if not is_news:
                self._left.took(retained)
            self.counters.fetched += 1
            self.counters.news += is_news
        else:
            self.counters.refused += 1
            session.refused = True

    def _take_proof(self, retained: Retained) -> None:
        topic, version, proofs = retained.topic, retained.version, self._proofs
        if self._versions.version(topic) != version or not self._versions.lacks_proof(topic):
            return
        # What was believed once is not looked at again, though its key may be forgotten by now.
        can_check = proofs is not None and proofs.can_check(version, retained.proof)
        if proofs is not None and can_check and proofs.check(retained):
            self.counters.proven += self._versions.prove(topic, version, retained.proof)

    def _is_believed(self, link: int, retained: Retained, now: float) -> bool:
        verdict = Verdict.PROVEN if self._proofs is None else self._proofs.check(retained)
        if verdict is not Verdict.PROVEN:
            self.counters.unproven += 1
            if len(self._refused) < REFUSED_MAX:
                self._refused.append(RefusedRetained(link, retained, verdict))
        if verdict is Verdict.UNKNOWN:
            state = self._links[link]
            state.again_at = min(state.again_at, now + state.again_wait_s)
        return verdict is Verdict.PROVEN

    # -- answering -----------------------------------------------------------------------------

    def _answer(self, link: int, fields: list[Any], now: float) -> SendRetained:
        buckets, after, until, wants, listed = ask_of(fields)
        proofs = self._proofs if wants.proofs else None
        found: list[Retained] = []
        size = 0
        upto, last = until, after
        topics = self._versions.topics_from(buckets, after)
        for looked, (bucket, topic, version) in enumerate(topics):
            if (bucket, topic) > until:
                break
            is_full = proofs is not None and len(found) == ANSWER_PROVEN
            if looked == ANSWER_TOPICS or size >= ANSWER_BYTES or is_full:
                upto = last
                break
            last = (bucket, topic)
            known = listed.get(topic)
            if (known is None and wants.unlisted) or (known is not None and version > known):
                if proofs is not None and not self._versions.proof(topic):
                    continue  # it would not be taken
                told = self._store.told(topic, now)
                if told is not None:
                    found.append(replace(told, proof=self._versions.proof(topic)))
                    size += told.size_bytes
        rows = [told.row() for told in found] if proofs is None else _proven(found, proofs)
        self.counters.sent += len(rows)
        return SendRetained(link, pack((int(SyncKind.ANSWER), upto, rows)))


def _proven(found: list[Retained], proofs: RetainedProofs) -> list[tuple[Any, ...]]:
    """Return rows with proofs; what is this gateway's own is signed now."""
    own = iter(proofs.prove([told for told in found if told.proof == OWN]))
    return [(next(own) if told.proof == OWN else told).proven_row() for told in found]
