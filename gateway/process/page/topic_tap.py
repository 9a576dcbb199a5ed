"""Messages that visitors of the page look at as they come: what each may read, and bounded. Pure.

A look is a visitor's and a filter's. It has the newest messages, and ends when nobody asks for them
any more. What the visitor may not receive never gets into it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import field
from typing import Any, Final

from light_dataclasses import dataclass
from tree_handler.entry import Row
from tree_handler.routing.topic_filters import matches

_Heard = tuple[int, int, str, int, bytes, int]

LOOKS_MAX: Final = 16
LOOKS_PER_VISITOR: Final = 4
MESSAGES_MAX: Final = 200
"""That a look has; older ones are left out, and counted."""
PER_S_MAX: Final = 100
"""That a look takes in a second; further ones are left out, and counted."""
PAYLOAD_BYTES_MAX: Final = 2_048
"""Of a payload that is shown."""
KEPT_S: Final = 60.0
"""So long a look lasts that nobody asks for."""
_QOS, _RETAIN = 3, 4
_CUT_BYTES: Final = 3
"""Of a character of UTF-8 so many may stand before a cut (RFC 3629, section 3)."""


@dataclass(slots=True)
class TopicLook:
    """A visitor's view of the messages that one filter matches.

    A message costs a look as little as can be when it comes: how it is shown is worked out for who
    asks for it, and of what comes too fast for anybody to read there is but a count.

    Attributes:
        topic_filter: of it.
        may_receive: whether the visitor may, by the policy that holds now.
        wake: called when there is something new; for whoever waits.
        asked_s: when it was asked for last.
        messages: the newest: number, milliseconds since 1970, topic, flags, first bytes of the
            payload, and how many it has.
        number: of the newest message.
        left_out: messages that nobody saw, for there were too many.
        second: in which messages were taken last, and how many.

    """

    topic_filter: str
    may_receive: Callable[[str], bool]
    wake: Callable[[], None]
    asked_s: float
    messages: deque[_Heard] = field(default_factory=lambda: deque(maxlen=MESSAGES_MAX))
    number: int = 0
    left_out: int = 0
    second: tuple[int, int] = (0, 0)

    def hear(self, row: Row, time_ms: int) -> bool:
        """Take a message, and return whether there is something new to show."""
        topic: str = row[0]
        if not matches(self.topic_filter, topic):
            return False
        second, taken = self.second
        if second != time_ms // 1000:
            second, taken = time_ms // 1000, 0
        if taken >= PER_S_MAX:
            self.left_out += 1
            return False
        if not self.may_receive(topic):
            return False
        self.second = (second, taken + 1)
        self.left_out += len(self.messages) == MESSAGES_MAX
        self.number += 1
        payload: bytes = row[2]
        part = payload[:PAYLOAD_BYTES_MAX]
        self.messages.append((self.number, time_ms, topic, row[1], part, len(payload)))
        return True

    def after(self, number: int) -> list[dict[str, Any]]:
        """Return the messages behind a number, as they are shown."""
        return [
            {"number": one, "time_ms": time_ms, **shown(topic, flags, part, size)}
            for one, time_ms, topic, flags, part, size in self.messages
            if one > number
        ]


class TopicTap:
    """All looks.

    Args:
        wish: told of a filter that is wanted from now on.
        unwish: told of one that is not any more.

    """

    def __init__(
        self,
        wish: Callable[[str], None] = lambda _filter: None,
        unwish: Callable[[str], None] = lambda _filter: None,
    ) -> None:
        self._looks: dict[tuple[str, str], TopicLook] = {}
        self._wish, self._unwish = wish, unwish

    def wishes(self, wish: Callable[[str], None], unwish: Callable[[str], None]) -> None:
        """Tell others what is wanted: messages may come to those gateways alone that want them."""
        self._wish, self._unwish = wish, unwish

    def __len__(self) -> int:
        """Return how many looks there are."""
        return len(self._looks)

    def hear(self, rows: Iterable[Row], time_ms: int) -> None:
        """Take messages that came from anywhere."""
        looks = list(self._looks.values())
        for row in rows if looks else ():
            for look in looks:
                if look.hear(row, time_ms):
                    look.wake()

    def look(
        self,
        visitor: str,
        topic_filter: str,
        may_receive: Callable[[str], bool],
        wake: Callable[[], None],
        now_s: float,
    ) -> TopicLook | None:
        """Return a visitor's look at a filter, a new one if there is none; None if there are many.

        Args:
            visitor: whose.
            topic_filter: what it wants.
            may_receive: see `TopicLook`.
            wake: likewise.
            now_s: of a clock that only goes forward.

        """
        self.expire(now_s)
        key = (visitor, topic_filter)
        found = self._looks.get(key)
        if found is None:
            own = sum(one == visitor for one, _ in self._looks)
            if len(self._looks) >= LOOKS_MAX or own >= LOOKS_PER_VISITOR:
                return None
            found = self._looks[key] = TopicLook(topic_filter, may_receive, wake, now_s)
            self._wish(topic_filter)
        found.asked_s, found.may_receive, found.wake = now_s, may_receive, wake
        return found

    def expire(self, now_s: float) -> None:
        """End the looks that nobody asks for any more."""
        for key in [key for key, one in self._looks.items() if now_s - one.asked_s > KEPT_S]:
            del self._looks[key]
            self._unwish(key[1])


def shown(topic: str, flags: int, payload: bytes, size: int | None = None) -> dict[str, Any]:
    """Return a message as it is shown: its payload as text, or in hexadecimal if it is none.

    Args:
        topic: of it.
        flags: its QoS, with 4 added for RETAIN.
        payload: all of it, or its first bytes.
        size: how many it has in all, where those are its first.

    """
    part, whole = payload[:PAYLOAD_BYTES_MAX], len(payload) if size is None else size
    try:
        text, form = part.decode(), "text"
    except UnicodeDecodeError as error:
        # A character that was cut through at the end is no reason for hexadecimal.
        is_cut = whole > len(part) and error.start >= len(part) - _CUT_BYTES
        text, form = (part[: error.start].decode(), "text") if is_cut else (part.hex(), "hex")
    return {
        "topic": topic,
        "payload": text,
        "form": form,
        "bytes": whole,
        "qos": flags & _QOS,
        "retain": bool(flags & _RETAIN),
    }
