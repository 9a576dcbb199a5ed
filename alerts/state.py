"""All that is remembered of alerts from one life of a process to the next, as one document."""

from __future__ import annotations

from typing import Final

import msgspec

from alerts.matcher import AlertMatcher
from alerts.record import AlertRecord

FORMAT: Final = 1


class AlertStateError(ValueError):
    """Bytes are no state of alerts; the message says why."""


class TakenOn(msgspec.Struct):
    """Somebody has taken an alert on.

    Attributes:
        who: as the gateway knows them.
        note: what they say.
        at_us: when, microseconds since 1970.

    """

    who: str
    note: str
    at_us: int


class OpenAlert(msgspec.Struct, kw_only=True):
    """Something that is wrong.

    Attributes:
        raised: the record that it is, or would be, told by.
        held_s: for how long it was seen to be wrong; counts until it is open.
        is_open: it was wrong for long enough.
        well_s: for how long it was seen to be well since; None while it is wrong.
        is_told: somebody was told that it is open.
        reminders: so many were told.
        quiet_s: since it was told of last.
        hidden_s: since something that hides it was there; None if nothing ever did.
        taken_on: by whom; None if nobody has.
        above: the gateway above its own, as was last known; None for no one.
        untaken_s: for so long it was told, and neither taken on nor silenced or hidden.

    """

    raised: AlertRecord
    held_s: float = 0.0
    is_open: bool = False
    well_s: float | None = None
    is_told: bool = False
    reminders: int = 0
    quiet_s: float = 0.0
    hidden_s: float | None = None
    taken_on: TakenOn | None = None
    above: str | None = None
    untaken_s: float = 0.0


class AlertSilence(msgspec.Struct, kw_only=True):
    """Alerts that nobody is told of for a time.

    Attributes:
        number: its name.
        matcher: which alerts.
        begins_us: not before this, microseconds since 1970; 0 for at once.
        ends_us: and not after that.
        left_s: and for so long at most, however the clock is set.
        who: wanted it.
        note: why.

    """

    number: int
    matcher: AlertMatcher
    begins_us: int
    ends_us: int
    left_s: float
    who: str
    note: str


class WaitingRecord(msgspec.Struct):
    """A record that a way out has not taken yet.

    Attributes:
        record: it.
        waited_s: so far, since it may leave.
        held_s: and before that, in quiet hours or for a digest.

    """

    record: AlertRecord
    waited_s: float = 0.0
    held_s: float = 0.0


class WayState(msgspec.Struct):
    """The kept state of one way out: its queue, its counts and its last trouble.

    Attributes:
        waiting: records, in order.
        delivered: so many were taken.
        dropped: so many waited for too long, or were too many.
        trouble: why the last one was not taken; empty if it was.

    """

    waiting: list[WaitingRecord] = []
    delivered: int = 0
    dropped: int = 0
    trouble: str = ""


class WayFigures(msgspec.Struct, frozen=True):
    """The figures of one way out.

    Attributes:
        waiting: so many records wait.
        delivered: see `WayState`; likewise the next one.
        dropped: records that it never took.
        is_failing: whether it did not take the last one.

    """

    waiting: int
    delivered: int
    dropped: int
    is_failing: bool

    @classmethod
    def of(cls, state: WayState) -> WayFigures:
        """Return the figures of a way's state."""
        return cls(len(state.waiting), state.delivered, state.dropped, bool(state.trouble))


class AlertState(msgspec.Struct):
    """All of it.

    Attributes:
        format: of the document.
        alerts: that stand or are about to.
        cleared: records of those that stood last, the newest last.
        silences: that hold or will.
        ways: by name.
        last_us: the highest number that a name of an alert ends in: no two have the same.
        next_silence: the number of the next one.
        left_out: so many were not raised since too many stood.
        sent: on which ways alerts that stand were told, by name.
        still_lost: messages that the log of a gateway has lost, and nobody has brought back.
        kept: the number of times it was written: of two copies the higher one is newer.

    """

    format: int = FORMAT
    alerts: list[OpenAlert] = []
    cleared: list[AlertRecord] = []
    silences: list[AlertSilence] = []
    ways: dict[str, WayState] = {}
    last_us: int = 0
    next_silence: int = 1
    left_out: int = 0
    sent: dict[str, list[str]] = {}
    still_lost: int = 0
    kept: int = 0

    def encode(self) -> bytes:
        """Return it as JSON."""
        return msgspec.json.encode(self)


class _Format(msgspec.Struct):
    """The mark that every state carries: a document without it is something else."""

    format: int


_decoder: Final = msgspec.json.Decoder(AlertState)
_format_decoder: Final = msgspec.json.Decoder(_Format)


def decode(data: bytes) -> AlertState:
    """Read a state from JSON.

    Raises:
        AlertStateError: it is none, or of a later format.

    """
    try:
        written = _format_decoder.decode(data).format
        if written != FORMAT:
            raise AlertStateError(f"format {written} is not {FORMAT}")
        return _decoder.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise AlertStateError(str(error)) from error
