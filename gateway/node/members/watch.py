"""Watch over the fleet: suspects are found here, and at the root those who are absent.

It follows the tree (`Locator`), asks whom the tree has lost, answers for this gateway, and tells
the hierarchy who heads nothing (`tree_handler.members.suspicion`).
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Iterable

from gateway.base.event_log.counted_lines import CountedLines
from gateway.node.links.node import TreeNode
from gateway.node.members.membership import Members
from tree_handler.batch import Entry, Header
from tree_handler.members.absence import Absence
from tree_handler.members.suspicion import Question, Suspicion
from tree_handler.rate_limit import RateLimit
from tree_handler.routing.unreachable import UnreachableGateways

ASK_TOPIC = "$hedgerow/there/ask"
ANSWER_TOPIC = "$hedgerow/there/answer"
LOOKS = 4
"""So often in the time-out of a member its root looks for it."""
SETTLE_S = 0.05
"""Changes of the tree within this time are looked at together."""
ANSWERS_PER_S, ANSWERS_AT_ONCE = 1 / 30, 3
"""An answer goes to all and is believed for a minute: who asks again and again gets no more."""
NAMED_PER_S, NAMED_AT_ONCE = 1.0, 100
"""Gateways that the log names: a member can say that it reaches thousands, and then nobody."""

_log = logging.getLogger(__name__)


class MemberWatch:
    """A `Part` without messages of its own on links: what it says floods, as all control does.

    Args:
        node: this gateway's.
        members: whose records are looked at.
        member_timeout_s: after so long out of the tree a member is taken out of the records.
        clock: in seconds, as of the node's timers.

    """

    topics: frozenset[bytes] = frozenset()

    def __init__(
        self,
        node: TreeNode,
        members: Members,
        member_timeout_s: float,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._clock = clock or asyncio.get_running_loop().time
        self._node = node
        self._members = members
        self._own_id = node.tree.identity.gateway_id
        self._absence = Absence(member_timeout_s)
        self._suspicion = Suspicion(self._own_id)
        self._answers = RateLimit(ANSWERS_PER_S, ANSWERS_AT_ONCE)
        self._named = RateLimit(NAMED_PER_S, NAMED_AT_ONCE)
        self._lines = CountedLines(_log, self._clock)
        self._interval_s = member_timeout_s / LOOKS
        self._away = UnreachableGateways(member_timeout_s)
        self._absence_at_s = 0.0
        self._look_at_s = math.inf
        node.locator.tell_of_moves(self._moved)

    def link_up(self, link: int, peer_id: str, now: float) -> None:
        """Do nothing: the tree alone counts."""

    def link_down(self, link: int, now: float) -> None:
        """Do nothing: the tree alone counts."""

    def tree_changed(self, now: float) -> None:
        """Look again who is away: this gateway may be the root now, or no longer."""
        self._absence_at_s = 0.0
        self._moved(now)

    def receive(self, link: int, topic: bytes, payload: bytes, now: float) -> None:
        """Do nothing: nothing comes, as the part has no topic."""

    def next_timer(self) -> float:
        """Return when suspects, or the absent, are looked at again."""
        return min(self._look_at_s, self._absence_at_s)

    def handle_timer(self, now: float) -> None:
        """Find suspects, and take out of the records who has been absent for long."""
        self._members.read_again(now)
        reached = self._node.locator.reached
        known = self._members.known
        before = known.suspects
        ids = [one.id for one in known]
        questions = self._suspicion.look(ids, reached, now)
        for question in questions:
            self._say(ASK_TOPIC, question.encode())
        suspects = self._suspicion.suspects
        gone = "%s is out of reach and does not answer: it heads nothing"
        self._tell(logging.WARNING, gone, suspects - before, now)
        self._tell(logging.INFO, "%s is there again", before - suspects, now)
        known.suspect(suspects)
        self._look_at_s = self._suspicion.next_timer()
        if self._away.follow((one for one in ids if one != self._own_id), reached, now, 0):
            self._members.tell_anew()
        self._away.over(now, 0)
        if now >= self._absence_at_s:
            self._absence_at_s = now + self._interval_s
            self._look_for_absent(reached, suspects, now)

    def hear(self, entry: Entry, header: Header) -> None:
        """Take a message between gateways; other topics are not this module's.

        Raises:
            ProtocolError: it is a question that asks nothing.

        """
        now = self._clock()
        if entry.topic == ANSWER_TOPIC:
            self._suspicion.answered(header.origin, now)
            self._moved(now)
        elif entry.topic == ASK_TOPIC:
            question = Question.decode(entry.payload)
            self._suspicion.asked(header.origin, question, now)
            if self._own_id in question.ids and self._answers.allow("", now):
                self._say(ANSWER_TOPIC, b"")

    def _moved(self, now: float) -> None:
        self._look_at_s = min(self._look_at_s, now + SETTLE_S)
        self._node.reschedule()

    def _tell(self, level: int, what: str, ids: Iterable[str], now: float) -> None:
        """Have the log tell of some gateways, but no more of them than one can read."""
        for gateway_id in sorted(ids):
            if self._named.allow("", now):
                _log.log(level, what, gateway_id)
            else:
                self._lines.count("others are out of reach, or there again", gateway_id)

    def _say(self, topic: str, payload: bytes) -> None:
        self._node.publish(Entry(topic, payload), control=True)

    def _look_for_absent(
        self, reached: frozenset[str], suspects: frozenset[str], now: float
    ) -> None:
        is_root = self._node.tree.root_id == self._own_id
        present = {self._own_id, *reached} if is_root else None
        for notice in self._absence.look(self._members.known, present, now):
            if notice.id not in suspects:  # it says itself that it is there
                continue
            _log.warning("%s is out of reach: it is taken out of the fleet's records", notice.id)
            self._members.take_out(self._node, notice, self._own_id)
