"""Announcements of a gateway's sensors and alerts to Home Assistant, and removal of what went.

Each sensor has a retained message on ``<prefix>/<component>/<gateway>/<object>/config``; an empty
one ends it. What is retained already says which sensors there were, so that one that went is
taken back although nobody remembers it, and one that did not change is not told again.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence

from gateway.base.toml.toml_file import Fault, hold
from gateway.home_assistant.entities import (
    AnnouncingGateway,
    Entity,
    describe,
    describe_alerts,
    object_id,
)
from gateway.home_assistant.section import HomeAssistantSection
from gateway.sensors import mqtt_form
from gateway.sensors.catalogue import ConfiguredSensor
from gateway.sensors.options import SensorConfigError
from gateway.sensors.reading import names_of
from gateway.sensors.sensor import Actuator
from tree_handler.batch import Entry

ONLINE, OFFLINE = b"online", b"offline"
"""Home Assistant's defaults of ``payload_available`` and ``payload_not_available``."""
OWN_BYTES_MAX = 64 * 1024
"""Of a message that this gateway has announced a sensor with; a longer one is nobody's of ours."""

_log = logging.getLogger(__name__)


class Announcements:
    """The announcements of one gateway.

    Args:
        section: the configuration's; with ``discovery`` off what was announced is taken back.
        gateway: whose sensors they are.
        sensors: those that are read.

    Raises:
        ConfigError: a sensor's table ``home_assistant`` is wrong, or a sensor has a name whose
            topic is needed; it holds all of `faults`.

    """

    def __init__(
        self,
        section: HomeAssistantSection,
        gateway: AnnouncingGateway,
        sensors: Sequence[ConfiguredSensor],
    ) -> None:
        self._gateway = gateway
        self._is_on = section.discovery
        self._configs: dict[str, bytes] = {}
        self.actuators: dict[str, Actuator] = {}
        """Those that can be set over MQTT, by their command topic."""
        hold(faults(gateway, sensors, is_on=self._is_on))
        if not self._is_on:
            return
        if gateway.alerts:
            alerts = describe_alerts(gateway)
            self._configs[
                f"{section.prefix}/{alerts.component}/{gateway.alerts_node}/problem/config"
            ] = _payload(alerts)
        for each in sensors:
            entities = describe(each, gateway)
            sensor = each.sensor
            if each.form.format == mqtt_form.MSGPACK:
                _log.warning(
                    "sensor %s is not announced: Home Assistant does not read msgpack", sensor.name
                )
                continue
            if not entities:
                _log.warning("sensor %s is not announced: it has bytes alone", sensor.name)
                continue
            for name, entity in entities.items():
                place = f"{entity.component}/{gateway.gateway_id}/{object_id(name)}"
                self._configs[f"{section.prefix}/{place}/config"] = _payload(entity)
            if isinstance(sensor, Actuator):
                self.actuators[gateway.command_topic(sensor.name)] = sensor

    @property
    def filters(self) -> tuple[str, ...]:
        """Return the filters of retained messages that `begin` has to know."""
        nodes = (self._gateway.gateway_id, self._gateway.alerts_node)
        return *(f"+/+/{node}/+/config" for node in nodes), self._gateway.availability_topic

    def begin(self, retained: Mapping[str, bytes]) -> list[Entry]:
        """Return what to publish when the gateway starts.

        Args:
            retained: what is retained now, by topic.

        """
        here = self._gateway.availability_topic
        wanted = self.wanted
        gone = [
            topic
            for topic, payload in retained.items()
            if topic not in wanted
            and (topic == here or is_ours(payload, self._gateway.unique_prefix))
        ]
        changed = {t: payload for t, payload in wanted.items() if retained.get(t) != payload}
        return [_retained(topic, b"") for topic in gone] + [
            _retained(topic, payload) for topic, payload in changed.items()
        ]

    def again(self) -> list[Entry]:
        """Return what to publish for a gateway that was not known when it was published before."""
        return [_retained(topic, payload) for topic, payload in self.wanted.items()]

    @property
    def wanted(self) -> dict[str, bytes]:
        """Return what is to be retained, by topic."""
        here = self._gateway.availability_topic
        return self._configs | ({here: ONLINE} if self._is_on else {})

    def leave(self) -> list[Entry]:
        """Return what to publish when the gateway's topics are others from now on."""
        return [_retained(self._gateway.availability_topic, b"")] if self._is_on else []

    def end(self) -> list[Entry]:
        """Return what to publish when the gateway stops."""
        return [_retained(self._gateway.availability_topic, OFFLINE)] if self._is_on else []


def faults(
    gateway: AnnouncingGateway, sensors: Sequence[ConfiguredSensor], *, is_on: bool
) -> Iterator[Fault]:
    """Yield what keeps sensors from being announced, or from having a topic to themselves.

    Args:
        gateway: whose they are.
        sensors: those that are read.
        is_on: whether Home Assistant is told of them.

    """
    if alerts := gateway.alerts_topic:
        for each, topic in _topics(gateway, sensors):
            if topic in {alerts, f"{alerts}/ack"}:
                why = f"its topic is {topic}, which alerts.mqtt.topic gives to alerts"
                yield Fault(f"{each.where}.name", why)
    if not is_on:
        return
    needed = {gateway.availability_topic}
    for each in sensors:
        try:
            describe(each, gateway)
        except SensorConfigError as error:
            yield Fault(error.key, error.why)
        if isinstance(each.sensor, Actuator) and each.form.format != mqtt_form.MSGPACK:
            needed.add(gateway.command_topic(each.sensor.name))
    for each, topic in _topics(gateway, sensors):
        if topic in needed:
            name = topic.removeprefix(gateway.state_topic(""))
            why = f"{name!r} is needed for Home Assistant: its topic is {topic}"
            yield Fault(f"{each.where}.name", why)


def _topics(
    gateway: AnnouncingGateway, sensors: Sequence[ConfiguredSensor]
) -> Iterator[tuple[ConfiguredSensor, str]]:
    for each in sensors:
        for name, _ in names_of(each.sensor):
            yield each, gateway.state_topic(name)


def is_ours(payload: bytes, unique_prefix: str = "hedgerow_") -> bool:
    """Return whether a discovery payload is a gateway's: anybody may announce below any name.

    Args:
        payload: as it is retained.
        unique_prefix: what the gateway's unique ids begin with.

    """
    if len(payload) > OWN_BYTES_MAX:
        return False
    try:
        fields = json.loads(payload)
        # An earlier release had its alerts with a capital letter.
        is_of_gateway = fields["origin"]["name"] in {"hedgerow", "Hedgerow"}
        return is_of_gateway and str(fields["unique_id"]).startswith(unique_prefix)
    except (ValueError, TypeError, LookupError, RecursionError):
        return False


def _payload(entity: Entity) -> bytes:
    return json.dumps(entity.fields, separators=(",", ":"), ensure_ascii=False).encode()


def _retained(topic: str, payload: bytes) -> Entry:
    return Entry(topic, payload, qos=1, retain=True)
