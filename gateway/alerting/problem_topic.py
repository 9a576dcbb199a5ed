"""Problems as a retained message on a topic of the gateway, and for Home Assistant."""

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
        gateway_id: whose topic it is.
        topic: gives it; the gateway may move.
        discovery: Home Assistant's discovery prefix; empty where it is told of nothing.
        accept: takes what is published.

    """

    def __init__(
        self,
        gateway_id: str,
        topic: Callable[[], str],
        discovery: str,
        accept: Callable[[Entry], None],
    ) -> None:
        self._gateway_id = gateway_id
        self._topic = topic
        self._discovery = discovery
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
        if before is None or before.topic != topic:
            self._announce(topic)
        self._accept(told)

    def _announce(self, topic: str) -> None:
        if not self._discovery:
            return
        # A node of its own: what stands below the gateway's is taken back if it is no sensor.
        node = f"{self._gateway_id}-alerts"
        config = {
            "name": "Alerts",
            "unique_id": f"hedgerow_{self._gateway_id}_alerts",
            "device_class": "problem",
            "state_topic": topic,
            "value_template": "{{ value_json.problem }}",
            "json_attributes_topic": topic,
            "device": {"identifiers": [f"hedgerow_{self._gateway_id}"]},
            "origin": {"name": "Hedgerow"},
        }
        place = f"{self._discovery}/binary_sensor/{node}/problem/config"
        payload = json.dumps(config, separators=(",", ":")).encode()
        self._accept(Entry(place, payload, qos=1, retain=True))
