"""The gateway as `retained.sync` needs it, and what that remembers of its neighbours."""

from __future__ import annotations

from collections import deque
from dataclasses import field
from math import inf
from typing import Final, Protocol

from light_dataclasses import dataclass
from tree_handler.batch import Epoch
from tree_handler.proof import Verdict
from tree_handler.retained.hybrid_clock import RetainedVersion
from tree_handler.retained.message import Retained
from tree_handler.retained.sync_wire import START, PlaceInSync
from tree_handler.retained.versions import RetainedVersions

PROOFS_AGAIN_S = 60.0
"""A neighbour is asked again for proofs after so long, then after twice as long, and so on."""
PROOFS_AGAIN_MAX_S = 86_400.0
PROOFS_SOON_S: Final = 10.0
"""But after so long if there is a reason: it has learnt some, or more are lacking here."""
UNKNOWN_AGAIN_S = 2.0
"""A version signed by an unknown key is asked for again after so long, then after twice as
long, and so on: its certificate may be on its way."""
UNKNOWN_AGAIN_MAX_S = 3_600.0
LATE_AGAIN_S: Final = 60.0
"""A neighbour that has not answered in time is asked again after so long, then after twice as long,
and so on, unless its answer comes after all: it may have much to send over a slow line."""
LATE_AGAIN_MAX_S: Final = 3_600.0
MAX_LATE: Final = 8
"""Answers of one neighbour that are waited for; with more it is not asked again."""
MAX_FRUITLESS: Final = 1_000
"""Answers in a row that bring nothing, and after which there is to be more: an honest neighbour
looks at `sync.ANSWER_TOPICS` topics for each. With more it is left alone for a while."""
TURN_S: Final = 60.0
"""A neighbour is asked for so long at most while another one waits to be asked: whoever has more,
or says so, goes on behind the others."""
PAUSE_S: Final = 5.0
"""So long it is left alone then, in which the others are asked."""
REFUSED_AGAIN_S: Final = 60.0
"""The least time before a version that a limit kept out is asked for again: a disk may be full."""


class Log(Protocol):
    """The questions that retained messages ask of replication."""

    def handed_out(self, stream: Epoch) -> int:
        """Return the number up to which local clients got a stream, or it was given up for them."""

    def may_come(self, stream: Epoch, number: int) -> bool:
        """Return whether a number is here behind a gap, or a neighbour can send it."""

    def is_catching_up(self) -> bool:
        """Return whether a neighbour has what this gateway lacks and is asking for."""


class RetainedSource(Protocol):
    """The retained messages of a gateway."""

    @property
    def versions(self) -> RetainedVersions:
        """Their versions."""

    def told(self, topic: str, now: float) -> Retained | None:
        """Return what a neighbour is told of a topic, but for its proof; None for nothing."""

    def may_speak(self, retained: Retained) -> bool:
        """Return whether who published it may have it retained here."""

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
class SyncSession:
    """A fetch of retained messages from one neighbour.

    Attributes:
        after: behind which place was asked last.
        refused: a limit kept something out; only known topics are asked for from then on.
        forbidden: somebody may not have something retained here; all else is wanted.
        seeks_proofs: it is for topics without a proof, and not for all in which digests differ.
        turn_ends_at: from then on it makes room for other neighbours.
        gives_way: it does, and goes on later.

    """

    link: int
    buckets: list[int]
    asked_at: float
    after: PlaceInSync = START
    refused: bool = False
    forbidden: bool = False
    seeks_proofs: bool = False
    fruitless: int = 0
    """Answers in a row that brought nothing."""
    was_of_use: bool = False
    turn_ends_at: float = inf
    gives_way: bool = False

    def has_brought(self, *, anything: bool) -> None:
        """An answer came."""
        self.was_of_use |= anything
        self.fruitless = 0 if anything else self.fruitless + 1

    @property
    def is_fruitless(self) -> bool:
        """Return whether it brought nothing for too long."""
        return self.fruitless > MAX_FRUITLESS


@dataclass(slots=True)
class SyncLink:
    """The state of one neighbour's synchronisation.

    Attributes:
        told_changes: `RetainedVersions.changes` when it was told the root; -1 for never.
        told_at: when that was.
        told: the root that it was told.
        told_proven: `RetainedVersions.proven` then.
        differs: its root is another one, and its digest is wanted.
        digest: its digest, until it is compared.
        proofs_at: from then on it is asked for proofs that are lacking here.
        proofs_wait_s: and after that so long not again.
        proofs_asked_at: when it was asked for them last.
        root: what it told last.
        again_at: what it told and could not be taken is asked for again then.
        again_wait_s: and after that so long not again.
        late: what was asked and given up, and is not answered yet; answers come in this order.
        late_until: until then it is not asked again, unless it answers.
        late_wait_s: and after that so long not again.

    """

    told_changes: int = -1
    told_at: float = -inf
    told: bytes = b""
    told_proven: int = 0
    differs: bool = False
    digest: bytes | None = None
    proofs_at: float = -inf
    proofs_wait_s: float = PROOFS_AGAIN_S
    proofs_asked_at: float = -inf
    root: bytes = b""
    again_at: float = inf
    again_wait_s: float = UNKNOWN_AGAIN_S
    late: deque[SyncSession] = field(default_factory=deque)
    late_until: float = inf
    late_wait_s: float = LATE_AGAIN_S
    left_until: float = -inf
    """Until then it is left alone: it answered without an end, and brought nothing."""
    left_s: float = REFUSED_AGAIN_S
    goes_on_from: PlaceInSync = START
    """The place where the next fetch from it begins: it may be honest, and have much that is not
    believed before what is."""

    def tells(self, root: bytes, changes: int, proven: int, now: float) -> int:
        """It is told a root now; return how often.

        A root has nothing of proofs in it: the same one again says that there are more of them
        (`told_root`). So it is told twice where it is another one and there are more proofs, too.
        """
        has_more = self.told_changes != -1 and proven != self.told_proven
        times = 2 if has_more and root != self.told else 1
        self.told_changes, self.told_proven = changes, proven
        self.told, self.told_at = root, now
        return times

    def told_root(self, root: bytes, own: bytes) -> None:
        """It tells its root; the same one again where it has learnt what proves something."""
        self.differs = root != own
        if root == self.root:
            self.may_have_proofs()
        self.root = root

    def may_have_proofs(self) -> None:
        """Ask it soon for proofs: it may have some that it had not when it was asked last."""
        self.proofs_at = min(self.proofs_at, self.proofs_asked_at + PROOFS_SOON_S)

    def asks_for_proofs(self, now: float) -> None:
        """Note that it is asked for proofs now; the pause before the next time doubles, to a
        limit."""
        self.proofs_asked_at, self.proofs_at = now, now + self.proofs_wait_s
        self.proofs_wait_s = min(2 * self.proofs_wait_s, PROOFS_AGAIN_MAX_S)

    def is_late(self, session: SyncSession, now: float) -> None:
        """It has not answered in time: others are asked, and it is compared with again later."""
        self.late.append(session)
        self.late_until = now + self.late_wait_s
        self.late_wait_s = min(2 * self.late_wait_s, LATE_AGAIN_MAX_S)
        self.differs = True

    def late_answer(self) -> SyncSession | None:
        """Return which of the exchanges given up an answer is of, if it is of one."""
        self.late_wait_s = LATE_AGAIN_S
        return self.late.popleft() if self.late else None

    def may_be_asked(self, now: float) -> bool:
        """Return whether it is not too busy with what it was asked before."""
        if now < self.left_until:
            return False
        return not self.late or (now >= self.late_until and len(self.late) < MAX_LATE)

    @property
    def waits(self) -> bool:
        """Return whether it has, or may have, what is lacking here."""
        return self.differs or self.digest is not None

    def has_ended(self, session: SyncSession, now: float) -> None:
        """All was fetched that it had, or it goes on without bringing anything, or gives way; what
        could not be taken is asked for again later."""
        if session.was_of_use:
            self.left_s = REFUSED_AGAIN_S
        if session.is_fruitless:
            self.left_until, self.differs = now + self.left_s, True
            self.left_s = min(2 * self.left_s, LATE_AGAIN_MAX_S)
            self.goes_on_from = session.after
        elif session.gives_way:
            self.left_until, self.differs = now + PAUSE_S, True
            self.goes_on_from = session.after
        elif self.goes_on_from > START:  # what stands before has not been compared this time
            self.goes_on_from, self.differs = START, True
        if session.refused or session.forbidden:
            self.again_wait_s = max(REFUSED_AGAIN_S, self.again_wait_s)
            self.again_at = min(self.again_at, now + self.again_wait_s)
        elif self.again_at == inf:
            self.again_wait_s = UNKNOWN_AGAIN_S


@dataclass(slots=True)
class PutOff:
    """A message that was left to the log: who told of it, and since when it waits."""

    link: int
    stream: Epoch
    number: int
    version: RetainedVersion
    since: float
    is_overdue: bool = False


@dataclass(slots=True)
class SyncCounters:
    """Counts of synchronised messages, for status and metrics."""

    sent: int = 0
    fetched: int = 0
    news: int = 0
    left_to_log: int = 0
    refused: int = 0
    proven: int = 0
    """The number of versions that were here without a proof, and have one now."""
    unproven: int = 0
    """The number not taken because their origins have not signed them, as far as is known here."""
    forbidden: int = 0
    """The number not taken because their origins may not have them retained here."""

    @property
    def of_use(self) -> int:
        """Count the answers of neighbours that were of use."""
        return self.fetched + self.proven + self.left_to_log


@dataclass(frozen=True, slots=True)
class RefusedRetained:
    """A retained message of a neighbour that this gateway does not believe.

    Attributes:
        link: to the neighbour.
        retained: what it told.
        verdict: what its proof proves.

    """

    link: int
    retained: Retained
    verdict: Verdict
