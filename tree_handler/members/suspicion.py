"""Suspicion of members: out of reach, asked, and without an answer (row A2).

Absence takes minutes, since it is for good. A head must be replaced in seconds, and without harm
if it was a mistake. So each gateway decides for itself, from what it sees of the tree:

- whom the tree does not reach is *asked*, in a message that floods to all. Who is there answers
  for itself, in one that floods too: one answer is enough for all who wonder.
- who does not answer in time is suspect. It keeps its record and its place and heads nothing
  (`Hierarchy`): its substitute does, at once and at every gateway that sees the same tree.
- a suspect that is seen again is one no more after it was there for a while: longer each time, so
  that one that comes and goes does not make heads come and go.

That a neighbour says whom it reaches is no proof, so nobody becomes a suspect by that alone: a
liar would have to keep an honest gateway's own answers from everybody too.

A fleet asks with few messages: askers draw lots, and most hear others ask before their turn. One
asker alone does not silence the others, for it may have shown its question only to some.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Collection, Iterable, Iterator
from dataclasses import field

import msgpack

from light_dataclasses import dataclass
from tree_handler.errors import ProtocolError
from tree_handler.members.place import NAME_CHARACTERS_MAX, check_name
from tree_handler.unpacking import MessageSize, unpack

MAX_ASKED = 256
"""Gateways that one message asks for."""
SIZE = MessageSize(MAX_ASKED * (NAME_CHARACTERS_MAX + 2) + 8, 2 * MAX_ASKED, MAX_ASKED)
ENOUGH = 3
"""So many others have asked, and one need not ask as well."""


@dataclass(frozen=True, slots=True)
class Patience:
    """The times by which a gateway out of reach becomes a suspect, in seconds.

    Attributes:
        grace_s: so long out of reach, a gateway is asked: the tree mends itself sooner.
        spread_s: askers draw their turn within this time.
        answer_s: so long an answer is waited for.
        believed_s: so long an answer stands for being reached.
        first_hold_s: so long a suspect must be there before it is none any more ...
        last_hold_s: ... doubled each time it became one, up to this ...
        forget_s: ... and begun anew when it was none for so long.

    """

    grace_s: float = 1.0
    spread_s: float = 1.0
    answer_s: float = 2.0
    believed_s: float = 60.0
    first_hold_s: float = 1.0
    last_hold_s: float = 30.0
    forget_s: float = 600.0

    @property
    def most_s(self) -> float:
        """So long after the tree has lost a gateway it is a suspect, if it does not answer."""
        return self.grace_s + self.spread_s + self.answer_s


@dataclass(frozen=True, slots=True)
class Question:
    """A question to gateways whether they are there.

    Attributes:
        ids: theirs; at most `MAX_ASKED`.

    """

    ids: tuple[str, ...]

    def encode(self) -> bytes:
        """Return the wire form."""
        packed: bytes = msgpack.packb(self.ids)
        return packed

    @classmethod
    def decode(cls, data: bytes) -> Question:
        """Read the wire form.

        Raises:
            ProtocolError: not a list of so many ids.

        """
        ids = unpack("gateways asked for", data, SIZE)
        if not isinstance(ids, list) or len(ids) > MAX_ASKED:
            raise ProtocolError("gateways asked for", ids)
        return cls(tuple(check_name("gateway asked for", one) for one in ids))


@dataclass(slots=True)
class _Missed:
    """A member that is out of reach and no suspect yet."""

    ask_at: float
    askers: set[str] = field(default_factory=set)
    asked_at: float = math.inf


@dataclass(slots=True)
class _Fallen:
    """A member that is, or was lately, a suspect."""

    times: int = 0
    is_suspect: bool = True
    there_since: float = math.inf
    over_at: float = math.inf


class Suspicion:
    """One gateway's record of which others are suspect.

    Args:
        own_id: this gateway, which is never suspect to itself.
        patience: how long things take; the same on all gateways.

    """

    def __init__(self, own_id: str, patience: Patience | None = None) -> None:
        self._own_id = own_id
        self._patience = patience or Patience()
        self._missed: dict[str, _Missed] = {}
        self._fallen: dict[str, _Fallen] = {}
        self._answered_at: dict[str, float] = {}
        self._rounds = 0
        self._suspects: frozenset[str] = frozenset()

    @property
    def suspects(self) -> frozenset[str]:
        """Return the gateways that head nothing, as of the last look."""
        return self._suspects

    def look(self, members: Iterable[str], reached: Collection[str], now: float) -> list[Question]:
        """Compare the members with the tree.

        Args:
            members: ids of those whose records count.
            reached: ids of those that the tree reaches now.
            now: monotonic seconds.

        Returns:
            What to ask all others.

        """
        known = set(members) - {self._own_id}
        for table in (self._missed, self._fallen, self._answered_at):
            for gone in table.keys() - known:
                del table[gone]
        self._answered_at = {
            one: at for one, at in self._answered_at.items() if now < at + self._patience.believed_s
        }
        for over in [one for one, fell in self._fallen.items() if now >= fell.over_at]:
            del self._fallen[over]
        there = {one for one in known if one in reached or one in self._answered_at}
        self._see(there, now)
        due = self._miss(known - there, now, len(known))
        self._suspects = frozenset(one for one, fell in self._fallen.items() if fell.is_suspect)
        return [Question(tuple(due[at : at + MAX_ASKED])) for at in range(0, len(due), MAX_ASKED)]

    def asked(self, asker: str, question: Question, now: float) -> None:
        """Another gateway asks; that counts as if this one had, if enough of them do."""
        for one in question.ids:
            missed = self._missed.get(one)
            if missed is not None and missed.asked_at == math.inf:
                missed.askers.add(asker)
                if len(missed.askers) >= ENOUGH:
                    missed.asked_at = now

    def answered(self, gateway_id: str, now: float) -> None:
        """A gateway says itself that it is there; to be followed by a look."""
        if gateway_id != self._own_id:
            self._answered_at[gateway_id] = now

    def next_timer(self) -> float:
        """Return when `look` is due again; infinite while all are there."""
        return min(self._times(), default=math.inf)

    def _times(self) -> Iterator[float]:
        patience = self._patience
        for missed in self._missed.values():
            is_asked = missed.asked_at < math.inf
            yield missed.asked_at + patience.answer_s if is_asked else missed.ask_at
        for fell in self._fallen.values():
            yield fell.there_since + self._hold_s(fell) if fell.is_suspect else fell.over_at
        for at in self._answered_at.values():
            yield at + patience.believed_s

    def _see(self, there: Iterable[str], now: float) -> None:
        for one in there:
            self._missed.pop(one, None)
            fell = self._fallen.get(one)
            if fell is None or not fell.is_suspect:
                continue
            fell.there_since = min(fell.there_since, now)
            if now >= fell.there_since + self._hold_s(fell):
                fell.is_suspect = False
                fell.over_at = now + self._patience.forget_s

    def _miss(self, missing: Iterable[str], now: float, fleet: int) -> list[str]:
        due = []
        ask_at = math.nan
        for one in missing:
            fell = self._fallen.get(one)
            if fell is not None and fell.is_suspect:
                fell.there_since = math.inf
                continue
            missed = self._missed.get(one)
            if missed is None:
                if math.isnan(ask_at):
                    ask_at = now + self._patience.grace_s + self._lot_s(fleet)
                self._missed[one] = _Missed(ask_at)
            elif now >= missed.asked_at + self._patience.answer_s:
                self._falls(one)
            elif missed.asked_at == math.inf and now >= missed.ask_at:
                missed.asked_at = now
                due.append(one)
        return sorted(due)

    def _falls(self, one: str) -> None:
        del self._missed[one]
        fell = self._fallen.setdefault(one, _Fallen())
        fell.times += 1
        fell.is_suspect, fell.there_since, fell.over_at = True, math.inf, math.inf

    def _hold_s(self, fell: _Fallen) -> float:
        doublings = min(fell.times - 1, 30)
        return min(self._patience.first_hold_s * 2.0**doublings, self._patience.last_hold_s)

    def _lot_s(self, fleet: int) -> float:
        """Draw this gateway's turn within the spread, in seconds: a late one in a large fleet."""
        self._rounds += 1
        drawn = zlib.crc32(f"{self._own_id} {self._rounds}".encode()) / 2**32
        steepness = math.log(fleet + 1) + 1
        return self._patience.spread_s * math.log1p(math.expm1(steepness) * drawn) / steepness
