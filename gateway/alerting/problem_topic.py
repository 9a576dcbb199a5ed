"""Problems as a retained message on a topic of the gateway."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from tree_handler.batch import Entry


class ProblemTopic:
    """Publishes what is wrong whenever that changes.

    While the log refuses messages it does so with QoS 0, which needs no log, and once more when the
    log takes messages again: else nobody would hear of the disk for which the log refuses them.

    Args:
        topic: gives it; the gateway may move.
        accept: takes what is published.

    """

    def __init__(self, topic: Callable[[], str], accept: Callable[[Entry], None]) -> None:
        self._topic = topic
        self._accept = accept
        self._told: Entry | None = None

    def tell(self, problem: Mapping[str, Any], *, is_logged: bool = True) -> None:
        """Publish what is wrong, if that is news.

        Args:
            problem: of the gateway.
            is_logged: whether the log takes messages.

        """
        payload = json.dumps(problem, separators=(",", ":")).encode()
        topic, qos = self._topic(), 1 if is_logged else 0
        told = Entry(topic, payload, qos=qos, retain=True)
        if self._told == told:
            return
        before, self._told = self._told, told
        if before is not None and before.topic != topic:
            self._accept(Entry(before.topic, b"", qos=qos, retain=True))
        self._accept(told)
