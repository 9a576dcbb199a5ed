"""An alert as it leaves the house: one model, for what a gateway and what the ingest raises.

A way out (mail, a webhook, a pager) gets a record for each change of an alert: that it was raised,
that it is still open, that it is over. Who raises alerts keeps the records until they are handed
over, and hands each over again if it dies in between. So a way out gets each at least once, in
order for one alert, and knows by `delivery_id` which it has had. Pure; times are microseconds
since 1970.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, Protocol

import msgspec


class RecordsRefusedError(ValueError):
    """A way out will never take these records, however often it is asked; the message says why."""


Change = Literal["raised", "reminded", "cleared"]


class AlertRecordError(ValueError):
    """Bytes are no record of an alert; the message says why."""


class AlertRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One change of one alert.

    Attributes:
        alert: the alert's name for ever.
        change: what happened to it.
        number: of reminders so far.
        rule: the kind of the alert, as ``silent``.
        gateway: about whom; ``""`` for the ingest itself.
        part: of it: a sensor, or a collector's spool; ``""`` for all of it.
        site: where that gateway stands, as ``DOMAIN/GROUP``; ``""`` where nobody said.
        severity: ``critical`` or ``warning``.
        since_us: since when it is open.
        at_us: when the change happened.
        message: for a person.
        value: what was measured last; of what is counted, how much came since it began; None where
            nothing is measured.
        what_to_do: the first step, and the page that says more.

    """

    alert: str
    change: Change
    number: int = 0
    rule: str
    gateway: str
    part: str
    site: str = ""
    severity: str
    since_us: int
    at_us: int
    message: str
    value: float | None
    what_to_do: str

    @property
    def delivery_id(self) -> str:
        """Its name for ever: who has had it drops it when it comes again."""
        return f"{self.alert}/{self.change}/{self.number}"

    @property
    def fields(self) -> dict[str, str]:
        """Return what an alert is told apart by: its rule, its severity, and whom it is about."""
        domain, _, group = self.site.partition("/")
        return {
            "rule": self.rule,
            "severity": self.severity,
            "gateway": self.gateway,
            "domain": domain,
            "group": group,
            "part": self.part,
        }

    def __str__(self) -> str:
        """Return one line for a log."""
        about = self.gateway or "the ingest itself"
        part = f", {self.part}" if self.part else ""
        return f"{self.change}: {self.rule} ({self.severity}): {about}{part}: {self.message}"

    def encode(self) -> bytes:
        """Return it as JSON."""
        return msgspec.json.encode(self)


class WayOut(Protocol):
    """Takes alerts out of the house.

    It is called from a thread of its own: who raises alerts does not wait for it. While it takes
    records no others are handed over.
    """

    def take(self, records: Sequence[AlertRecord]) -> None:
        """Take records over, all or none; one that it has had, by `delivery_id`, it drops.

        Args:
            records: at least one, in order: of one site, or the digest of a day.

        Raises:
            OSError: it can't take them now; these and all later ones come again.
            RecordsRefusedError: it will never take these.

        """


_decoder: Final = msgspec.json.Decoder(AlertRecord)


def decode(data: bytes) -> AlertRecord:
    """Read a record from JSON.

    Raises:
        AlertRecordError: it is none.

    """
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise AlertRecordError(str(error)) from error
