"""Messages of the gateway itself: readings, status records, alerts."""

from __future__ import annotations

from gateway.broker.broker import GatewayBroker
from tree_handler.batch import Entry


class OwnMessages:
    """Takes messages for the broker, whose tree the sensors are a part of and so know before it.

    What comes before the broker is there waits for it, in its order.
    """

    def __init__(self) -> None:
        self._broker: GatewayBroker | None = None
        self._early: list[Entry] = []

    def accept(self, entry: Entry) -> None:
        """Publish a message as a client would."""
        if self._broker is None:
            self._early.append(entry)
        else:
            self._broker.accept(entry)

    def go_to(self, broker: GatewayBroker) -> None:
        """Have a broker publish them from now on."""
        early, self._early = self._early, []
        self._broker = broker
        for entry in early:
            broker.accept(entry)
