"""A will whose time has come, until the log has it."""

from __future__ import annotations

from collections.abc import Callable

from gateway.broker.durability.standing_wills import SavedWill
from gateway.mqtt import Will
from light_dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DueWill:
    """One that is handed in to be published.

    Attributes:
        client_id: of the client that has gone.
        will: what is published.
        saved: as the journal has it; None where there is none.
        refused: is told if the log does not take it.

    """

    client_id: str
    will: Will
    saved: SavedWill | None
    refused: Callable[[DueWill], None]

    @property
    def number(self) -> int:
        """Its number in the journal; 0 if it has none."""
        return 0 if self.saved is None else self.saved.number

    def was_refused(self) -> None:
        """Tell that the log did not take it."""
        self.refused(self)
