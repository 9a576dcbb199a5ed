"""Proof that another life of a gateway is in the tree, where neighbours only say so.

Who is reached behind a neighbour is what the neighbour says (`Locator`). While another life of a
gateway is in the tree a newcomer gets no link (`tree_handler.one_life`), so a liar could keep a
gateway out for good. Where gateways sign, that life is asked: it signs a number that nobody could
foresee, in a message of its own. Without an answer it is not there, whatever neighbours say. Nor is
any other while several have not answered: who names a new one each time would keep it out as well.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable

import msgpack

from gateway.node.signing.topics import ANSWER_LIFE, ASK_LIFE
from light_dataclasses import dataclass
from tree_handler.batch import Entry, Header
from tree_handler.rate_limit import RateLimit
from tree_handler.unpacking import MessageSize, unpack

WAIT_S = 3.0
"""An answer is waited for so long; until then the newcomer waits too."""
BELIEVED_S = 60.0
"""So long after an answer that life is asked again, if it matters."""
DISBELIEVED_S = 600.0
"""And so long after none came."""
MAX_SILENT = 3
"""Lives of a gateway that did not answer: with so many, none is waited for any more."""
MAX_ASKED = 1_000
NONCE_BYTES = 16
SIZE = MessageSize(64, 8, 8)


@dataclass(slots=True)
class _AskedLife:
    nonce: bytes
    asked_at: float
    is_waited_for: bool
    has_answered: bool = False


class LifeProof:
    """A part that asks gateways whether a life of theirs is real, and answers for this one.

    Args:
        own_id: its id.
        epoch: its boot epoch.
        publish: sends a message to all gateways, by topic and payload.
        clock: in seconds; never goes back.

    """

    def __init__(
        self,
        own_id: str,
        epoch: int,
        publish: Callable[[str, bytes], None],
        clock: Callable[[], float],
    ) -> None:
        self._own = (own_id, epoch)
        self._publish = publish
        self._clock = clock
        self._asked: dict[tuple[str, int], _AskedLife] = {}
        self._answers = RateLimit(1.0, 10)

    def is_there(self, gateway_id: str, epoch: int) -> bool:
        """Return whether this life of a gateway is in the tree, as neighbours say."""
        now, life = self._clock(), (gateway_id, epoch)
        asked = self._asked.get(life)
        if asked is not None:
            age_s = now - asked.asked_at
            if asked.has_answered and age_s < BELIEVED_S:
                return True
            if not asked.has_answered and age_s < DISBELIEVED_S:
                return asked.is_waited_for and age_s < WAIT_S
        self._asked.pop(life, None)
        if len(self._asked) >= MAX_ASKED:
            del self._asked[next(iter(self._asked))]
        nonce = secrets.token_bytes(NONCE_BYTES)
        is_waited_for = self._silent(gateway_id, now) < MAX_SILENT
        self._asked[life] = _AskedLife(nonce, now, is_waited_for)
        self._publish(ASK_LIFE + gateway_id, msgpack.packb((epoch, nonce)))
        return is_waited_for

    def _silent(self, gateway_id: str, now: float) -> int:
        """Count the lives of a gateway that were asked lately and have not answered."""
        return sum(
            name == gateway_id and not asked.has_answered and now - asked.asked_at < DISBELIEVED_S
            for (name, _), asked in self._asked.items()
        )

    def receive(self, entry: Entry, header: Header) -> None:
        """Take a message between gateways; other topics are not this module's."""
        own_id, own_epoch = self._own
        if entry.topic == ASK_LIFE + own_id:
            epoch, nonce = _unpack(entry.payload)
            if epoch == own_epoch and self._answers.allow(header.origin, self._clock()):
                self._publish(ANSWER_LIFE + header.origin, msgpack.packb((epoch, nonce)))
        elif entry.topic == ANSWER_LIFE + own_id:
            epoch, nonce = _unpack(entry.payload)
            asked = self._asked.get((header.origin, header.epoch))
            if asked is not None and epoch == header.epoch and nonce == asked.nonce:
                asked.has_answered = True


def _unpack(payload: bytes) -> tuple[int, bytes]:
    try:
        epoch, nonce = unpack("number to sign", payload, SIZE)
    except (ValueError, TypeError):
        return -1, b""
    is_right = type(epoch) is int and isinstance(nonce, bytes) and len(nonce) == NONCE_BYTES
    return (epoch, nonce) if is_right else (-1, b"")
