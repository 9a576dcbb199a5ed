"""News of alerts for a way out: each change once, in order, over kills. Pure.

What was told of is remembered by alert, so that a change is found by comparing, and none is told
twice; what waits to be handed over is part of the same state.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

import msgspec

from alerts.record import AlertRecord, Change
from cloud_ingest.fleet.alerts import Alert, AlertBook
from cloud_ingest.fleet.fair_history import newest_of_each
from cloud_ingest.fleet.kinds import ABOUT

MAX_PENDING: Final = 10_000
"""Records that wait for a way out; of more, those of who has the most go, the oldest first."""
MAX_PENDING_A_GATEWAY: Final = 1_000


class OutgoingState(msgspec.Struct):
    """The records that wait for the ways out, kept between two batches.

    Attributes:
        told: the last record of each alert that is told of as open, by its name.
        pending: records that are to be handed over, in order.
        dropped: records that no way out got, since too many waited.

    """

    told: dict[str, AlertRecord] = {}
    pending: list[AlertRecord] = []
    dropped: int = 0

    def forget(self, gateway: str) -> None:
        """Remember nothing of a gateway."""
        self.told = {name: one for name, one in self.told.items() if one.gateway != gateway}
        self.pending = [one for one in self.pending if one.gateway != gateway]


class OutgoingAlerts:
    """Finds what changed.

    Args:
        book: of the alerts.
        known: what is remembered.
        remind_us: an alert that stays open is told of again so often; 0: never.
        is_used: whether there is a way out; without one nothing is kept for it.
        site_of: says where a gateway stands, as ``DOMAIN/GROUP``; ``""`` where nobody said.

    """

    def __init__(
        self,
        book: AlertBook,
        known: OutgoingState,
        remind_us: int,
        *,
        is_used: bool,
        site_of: Callable[[str], str] = lambda gateway: "",
    ) -> None:
        self._site_of = site_of
        self._book = book
        self._known = known
        self._remind_us = remind_us
        self._is_used = is_used

    @property
    def pending(self) -> tuple[AlertRecord, ...]:
        """Records that are to be handed over, once what is remembered is kept."""
        return tuple(self._known.pending)

    def handed(self, deliveries: Collection[str]) -> None:
        """Note that records of `pending` were taken over, by their `delivery_id`."""
        pending = self._known.pending
        self._known.pending = [one for one in pending if one.delivery_id not in deliveries]

    def look(self, now_us: int) -> None:
        """Find what changed since the last look.

        Args:
            now_us: the watch's time.

        """
        cleared, self._book.just_cleared = self._book.just_cleared, []
        if not self._is_used:
            self._known.told, self._known.pending = {}, []
            return
        told, is_open = self._known.told, {alert.id for alert in self._book.open.values()}
        for alert in cleared:
            raised = told.pop(alert.id, None)
            if raised is None:  # raised and cleared between two looks
                self._add(self._record(alert, "raised", alert.opened_us))
            self._add(self._record(alert, "cleared", alert.cleared_us or now_us))
        for gone in [name for name in told if name not in is_open]:  # forgotten, and not cleared
            self._add(
                msgspec.structs.replace(told.pop(gone), change="cleared", number=0, at_us=now_us)
            )
        for alert in self._book.open.values():
            before = told.get(alert.id)
            if before is None:
                told[alert.id] = self._add(self._record(alert, "raised", alert.opened_us))
            elif self._remind_us and now_us - before.at_us >= self._remind_us:
                again = self._record(alert, "reminded", now_us, before.number + 1)
                told[alert.id] = self._add(again)
        self._bound()

    def _add(self, record: AlertRecord) -> AlertRecord:
        self._known.pending.append(record)
        return record

    def _bound(self) -> None:
        pending = self._known.pending
        if len(pending) > MAX_PENDING_A_GATEWAY:
            self._known.pending = newest_of_each(
                pending,
                lambda one: one.gateway,
                most=MAX_PENDING,
                most_of_one=MAX_PENDING_A_GATEWAY,
            )
            self._known.dropped += len(pending) - len(self._known.pending)

    def _record(self, alert: Alert, change: Change, at_us: int, number: int = 0) -> AlertRecord:
        about = ABOUT[alert.kind]
        return AlertRecord(
            alert=alert.id,
            change=change,
            number=number,
            rule=alert.kind,
            gateway=alert.gateway,
            part=alert.sensor,
            site=self._site_of(alert.gateway),
            severity=about.severity,
            since_us=alert.opened_us,
            at_us=at_us,
            message=alert.message,
            value=alert.value,
            what_to_do=about.what_to_do,
        )
