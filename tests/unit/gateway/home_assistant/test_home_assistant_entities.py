"""Each sensor and actuator as Home Assistant's MQTT discovery describes one."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from typing import Any

import pytest
from home_assistant_rules import check

from gateway.home_assistant.announcements import Announcements
from gateway.home_assistant.entities import AnnouncingGateway
from gateway.home_assistant.section import HomeAssistantSection
from gateway.home_assistant.vocabulary import DEVICE_CLASSES, UNITS
from gateway.process.configuration.config import ConfigError
from gateway.sensors.catalogue import ConfiguredSensor, build_sensors
from gateway.sensors.mqtt_form import MqttForm
from gateway.sensors.senml import decode_text
from gateway.sensors.sensor import Actuator, Sensor, SensorPart
from gateway.sensors.switch import Switch
from gateway.sensors.values import ValueKind
from record_formats.record import Record
from record_formats.value import Value
from tree_handler.routing.topic_filters import matches

GATEWAY = AnnouncingGateway("gw-a", "campus/north/gw-a", "1.0")
ON = HomeAssistantSection(discovery=True)
FORMS = [MqttForm("json"), MqttForm("text")]


class Dimmer(Actuator):
    def read(self) -> float:
        return 0.0


def announced(*sensors: ConfiguredSensor) -> dict[str, dict[str, Any]]:
    """Return the announcements to Home Assistant, by the variable part of their topics."""
    entries = Announcements(ON, GATEWAY, sensors).begin({})
    told = {}
    for entry in entries:
        assert (entry.qos, entry.retain) == (1, True)
        if entry.topic != GATEWAY.availability_topic:
            short = entry.topic.removeprefix("homeassistant/").removesuffix("/config")
            told[short] = check(entry.topic, entry.payload)
    assert len(told) == len(entries) - 1
    return told


def configured(sensor: Sensor, form: MqttForm = FORMS[0], **more: Any) -> ConfiguredSensor:
    return ConfiguredSensor(sensor, form, "sensors[0]", more)


def rendered(fields: dict[str, Any], payload: bytes) -> str:
    """Render a payload by a value template, as far as the gateway's own templates go."""
    template = fields.get("value_template")
    if template is None:
        return payload.decode()
    found = re.fullmatch(r"\{\{ (.*) \}\}", template)
    assert found
    parts = [part.strip() for part in found[1].split("|")]
    if parts[0].startswith("("):  # a share, shown in per cent
        assert found[1].endswith("| float * 100) | round(2)")
        return str(round(float(_value(parts[0][1:], payload)) * 100, 2))
    value = _value(parts[0], payload)
    assert parts[1:] in ([], ["int"], ["lower"])
    if parts[1:] == ["lower"]:
        return value.lower()
    return str(int(float(value))) if parts[1:] else value


def _value(expression: str, payload: bytes) -> str:
    if expression == "value":
        return payload.decode()
    found = re.fullmatch(r"value_json\[0\]\.(v|vb|vs)", expression)
    assert found
    return str(json.loads(payload)[0][found[1]])  # as Jinja shows it: True, not true


@pytest.mark.parametrize("form", FORMS)
def test_a_sensor_is_described_in_full(form: MqttForm) -> None:
    sensor = Sensor("roof/temperature", interval_s=30, unit="Cel")
    (topic, fields), *others = announced(configured(sensor, form)).items()
    assert (topic, others) == ("sensor/gw-a/roof_temperature", [])
    template = fields.pop("value_template", None)
    assert template == ("{{ value_json[0].v }}" if form.format == "json" else None)
    assert fields == {
        "name": "roof temperature",
        "unique_id": "hedgerow_gw-a_roof_temperature",
        "state_topic": "campus/north/gw-a/roof/temperature",
        "availability_topic": "campus/north/gw-a/availability",
        "expire_after": 100,
        "qos": 1,
        "unit_of_measurement": "°C",
        "device_class": "temperature",
        "state_class": "measurement",
        "device": {
            "identifiers": ["hedgerow_gw-a"],
            "name": "gw-a",
            "manufacturer": "Hedgerow",
            "model": "gateway",
            "sw_version": "1.0",
        },
        "origin": {"name": "hedgerow", "sw_version": "1.0"},
    }


@pytest.mark.parametrize("form", FORMS)
def test_what_a_gateway_publishes_is_what_the_template_reads(form: MqttForm) -> None:
    def state(sensor: Sensor, value: Value) -> str:
        (fields,) = announced(configured(sensor, form)).values()
        record = Record(sensor.name, sensor.unit, value, 1_760_000_000.0, 1)
        payload = form.payload(record, "gw-a/")
        assert payload is not None
        return rendered(fields, payload)

    assert float(state(Sensor("a", unit="Cel"), -3.25)) == -3.25
    assert float(state(Sensor("a", unit="/"), 0.285)) == 28.5
    assert float(state(Dimmer("a", unit="/"), 0.285)) == 0.285
    assert [state(Switch("a"), value) for value in (0.0, 1.0)] == ["0", "1"]
    assert state(Sensor("a"), 7.0) in ("7", "7.0")
    for each in (of_kind(Sensor, "boolean"), of_kind(Dimmer, "boolean")):
        assert [state(each, value) for value in (True, False)] == ["true", "false"]
    for each in (of_kind(Sensor, "text"), of_kind(Dimmer, "text")):
        assert state(each, "ajar ü") == "ajar ü"


def of_kind(made: type[Sensor], kind: ValueKind) -> Sensor:
    sensor = made("a")
    sensor.kind = kind
    return sensor


@pytest.mark.parametrize("form", FORMS)
def test_booleans_and_texts_are_entities_of_their_own_kinds(form: MqttForm) -> None:
    def told(made: type[Sensor], kind: ValueKind) -> dict[str, Any]:
        ((topic, fields),) = announced(configured(of_kind(made, kind), form)).items()
        return {"component": topic.partition("/")[0], **fields}

    door = told(Sensor, "boolean")
    assert (door["component"], door["payload_on"]) == ("binary_sensor", "true")
    assert door["expire_after"] == 40
    lamp = told(Dimmer, "boolean")
    assert (lamp["component"], lamp["state_off"]) == ("switch", "false")
    assert lamp["command_topic"] == "campus/north/gw-a/a/set"
    assert decode_text(lamp["payload_on"].encode(), "boolean") is True
    assert decode_text(lamp["payload_off"].encode(), "boolean") is False
    label = told(Dimmer, "text")
    assert (label["component"], label["max"]) == ("text", 255)
    state = told(Sensor, "text")
    assert (state["component"], state.keys() & {"unit_of_measurement", "state_class"}) == (
        *("sensor",),
        set(),
    )


def test_each_of_several_values_is_an_entity_with_keys_of_its_own() -> None:
    air = Sensor("air")
    air.parts = {"t": SensorPart("Cel"), "open": SensorPart(kind="boolean")}
    air.parts = {**air.parts, "raw": SensorPart(kind="bytes")}
    told = announced(configured(air, icon="mdi:fan", open={"device_class": "window"}))
    assert told.keys() == {"sensor/gw-a/air_t", "binary_sensor/gw-a/air_open"}
    opened = told["binary_sensor/gw-a/air_open"]
    assert opened["state_topic"] == "campus/north/gw-a/air/open"
    assert (opened["device_class"], opened["icon"]) == ("window", "mdi:fan")
    assert told["sensor/gw-a/air_t"]["device_class"] == "temperature"
    with pytest.raises(ConfigError, match=r"home_assistant\.t: 1 is no table"):
        announced(configured(air, t=1))


def test_bytes_are_not_announced_and_said_so(caplog: pytest.LogCaptureFixture) -> None:
    assert announced(configured(of_kind(Sensor, "bytes"))) == {}
    assert "sensor a is not announced: it has bytes alone" in caplog.text


@pytest.mark.parametrize("form", FORMS)
def test_a_switch_has_a_command_topic_and_the_states_that_it_publishes(form: MqttForm) -> None:
    (topic, fields), *_ = announced(configured(Switch("pump/main"), form)).items()
    assert topic == "switch/gw-a/pump_main"
    assert fields["command_topic"] == "campus/north/gw-a/pump/main/set"
    assert (fields["payload_on"], fields["payload_off"]) == ("1", "0")
    assert (fields["state_on"], fields["state_off"]) == ("1", "0")
    assert "expire_after" not in fields


def test_an_actuator_that_is_no_switch_is_a_number() -> None:
    told = announced(
        configured(Dimmer("dimmer", unit="/")),
        configured(Dimmer("boiler", unit="Cel"), min=20, max=90, step=0.5),
    )
    assert (told["number/gw-a/dimmer"]["min"], told["number/gw-a/dimmer"]["max"]) == (0, 1)
    boiler = told["number/gw-a/boiler"]
    assert (boiler["min"], boiler["max"], boiler["step"]) == (20, 90, 0.5)
    assert (boiler["unit_of_measurement"], boiler["device_class"]) == ("°C", "temperature")


def test_a_sensor_of_on_and_off_may_be_a_binary_sensor() -> None:
    door = configured(Sensor("door", unit="/"), component="binary_sensor", device_class="door")
    fields = announced(door)["binary_sensor/gw-a/door"]
    assert (fields["payload_on"], fields["device_class"]) == ("1", "door")
    assert fields["value_template"] == "{{ value_json[0].v | int }}"


@pytest.mark.parametrize("unit", [*UNITS, "var", "%RH", "no-such-unit"])
@pytest.mark.parametrize("kind", [Sensor, Dimmer])
def test_every_unit_has_classes_that_go_with_it(unit: str, kind: type[Sensor]) -> None:
    assert announced(configured(kind("a", unit=unit)))


def test_the_machine_itself_is_described() -> None:
    told = announced(*build_sensors([{"type": "host", "format": "text"}]))
    assert told["sensor/gw-a/host_memory"]["unit_of_measurement"] == "%"
    assert told["sensor/gw-a/host_net-sent"]["state_class"] == "total_increasing"


def test_a_table_says_what_a_unit_does_not() -> None:
    soil = configured(Sensor("soil", unit="%"), device_class="moisture", name="Bed 1")
    fields = announced(soil)["sensor/gw-a/soil"]
    assert (fields["device_class"], fields["name"]) == ("moisture", "Bed 1")


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ({"state_topic": "x"}, "sensors[0].home_assistant.state_topic: set by the gateway"),
        ({"unique_id": "x"}, "sensors[0].home_assistant.unique_id: set by the gateway"),
        (
            {"device_class": "temperatur"},
            "sensors[0].home_assistant.device_class: 'temperatur' is none of Home Assistant's "
            "component 'sensor', did you mean 'temperature'?",
        ),
        (
            {"component": "binary_sensor", "device_class": "temperature"},
            "sensors[0].home_assistant.device_class: 'temperature' is none of Home Assistant's "
            "component 'binary_sensor', there are "
            "battery, battery_charging, ",
        ),
        ({"step": math.nan}, "sensors[0].home_assistant.step: nan is no number that JSON has"),
        ({"step": -math.inf}, "sensors[0].home_assistant.step: -inf is no number that JSON has"),
        ({"icon": ["x"]}, "sensors[0].home_assistant.icon: ['x'] is neither"),
        ({"component": "light"}, "sensors[0].home_assistant.component: 'light' is none of"),
        ({"component": "switch"}, "sensors[0].home_assistant.component: 'switch' is none of"),
    ],
)
def test_what_a_table_may_not_say_is_named(more: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError) as raised:
        announced(configured(Sensor("a"), **more))
    assert str(raised.value).startswith(named)


def test_a_text_has_no_class_of_home_assistants() -> None:
    class Display(Actuator):
        kind: ValueKind = "text"

    display = configured(Display("display"), device_class="moisture")
    with pytest.raises(ConfigError) as raised:
        announced(display)
    assert str(raised.value) == (
        "sensors[0].home_assistant.device_class: "
        "'moisture': Home Assistant's component 'text' has none"
    )


@pytest.mark.parametrize("name", ["availability", "pump/set"])
def test_a_sensor_may_not_have_a_topic_that_is_needed(name: str) -> None:
    with pytest.raises(ConfigError, match=r"sensors\[0\].name: .* its topic is"):
        announced(configured(Switch("pump")), configured(Sensor(name)))


@pytest.mark.parametrize(
    "beside", [configured(Sensor("pump")), configured(Switch("pump"), MqttForm("msgpack"))]
)
def test_a_topic_by_which_nobody_commands_is_free(beside: ConfiguredSensor) -> None:
    """A sensor takes no commands, nor does what is not announced."""
    assert announced(beside, configured(Sensor("pump/set")))


def test_msgpack_is_not_announced_and_said_so(caplog: pytest.LogCaptureFixture) -> None:
    assert announced(configured(Sensor("packed"), MqttForm("msgpack"))) == {}
    assert "sensor packed is not announced" in caplog.text


@pytest.mark.parametrize("prefix", ["", "a/b", "+", "häuschen"])
def test_a_prefix_is_one_topic_level(prefix: str) -> None:
    with pytest.raises(ConfigError, match="prefix"):
        HomeAssistantSection(prefix=prefix)


# -- from one start to the next --------------------------------------------------------------------


def begin(
    section: HomeAssistantSection,
    sensors: list[ConfiguredSensor],
    before: dict[str, bytes],
    gateway: AnnouncingGateway = GATEWAY,
) -> dict[str, bytes]:
    """Return the retained messages after a start."""
    after = dict(before)
    announcements = Announcements(section, gateway, sensors)
    found = {
        topic: payload
        for topic, payload in before.items()
        if any(matches(one, topic) for one in announcements.filters)
    }
    for entry in announcements.begin(found):
        if entry.payload:
            after[entry.topic] = entry.payload
        else:
            del after[entry.topic]
    return after


def test_a_sensor_that_went_is_taken_back_and_nobody_elses() -> None:
    both = [configured(Sensor("a")), configured(Sensor("b"))]
    foreign = {
        "homeassistant/sensor/gw-a/c/config": b'{"state_topic":"x","origin":{"name":"other"}}',
        "homeassistant/sensor/gw-a/d/config": b'{"state_topic":"x"}',
        "homeassistant/sensor/gw-a/e/config": b"\xff[",
    }
    first = begin(ON, both, foreign)
    second = begin(ON, both[:1], first)
    assert first.keys() - second.keys() == {"homeassistant/sensor/gw-a/b/config"}
    assert begin(HomeAssistantSection(), both, first) == foreign


ALERTING = replace(GATEWAY, alerts="trouble")
ALERTS = "homeassistant/binary_sensor/gw-a-alerts/problem/config"


def test_alerts_are_announced_again_with_the_sensors_and_taken_back() -> None:
    first = begin(ON, [], {}, ALERTING)
    fields = check(ALERTS, first[ALERTS])
    assert fields["state_topic"] == fields["json_attributes_topic"] == "campus/north/gw-a/trouble"
    assert fields["availability_topic"] == GATEWAY.availability_topic
    assert fields["unique_id"] == "hedgerow_gw-a_alerts"
    again = Announcements(ON, ALERTING, []).again()
    assert {entry.topic for entry in again} == first.keys()
    assert begin(ON, [], first, ALERTING) == first
    assert begin(ON, [], first).keys() == {GATEWAY.availability_topic}
    assert begin(HomeAssistantSection(), [], first, ALERTING) == {}


def test_what_an_earlier_release_announced_of_alerts_is_taken_back_by_its_gateway_alone() -> None:
    told = {"unique_id": "hedgerow_gw-a_alerts", "origin": {"name": "Hedgerow"}}
    before = {ALERTS: json.dumps(told).encode()}
    namesake = AnnouncingGateway("gw-a-alerts", "campus/north/gw-a-alerts", "1.0")
    assert begin(HomeAssistantSection(), [], before, namesake) == before
    assert begin(HomeAssistantSection(), [], before) == {}


@pytest.mark.parametrize("section", [ON, HomeAssistantSection()])
@pytest.mark.parametrize("name", ["trouble", "trouble/ack"])
def test_a_sensor_may_not_have_the_topic_of_alerts(
    section: HomeAssistantSection, name: str
) -> None:
    with pytest.raises(ConfigError, match=r"sensors\[0\].name: its topic is .*alerts.mqtt.topic"):
        Announcements(section, ALERTING, [configured(Sensor(name))])
    Announcements(section, GATEWAY, [configured(Sensor(name))])


def test_another_prefix_or_component_moves_the_announcement() -> None:
    sensor = Sensor("a")
    first = begin(ON, [configured(sensor)], {})
    second = begin(ON, [configured(sensor, component="binary_sensor")], first)
    assert {topic for topic in second if topic.endswith("config")} == {
        "homeassistant/binary_sensor/gw-a/a/config"
    }
    third = begin(HomeAssistantSection(True, "ha"), [configured(sensor)], second)
    assert {topic for topic in third if topic.endswith("config")} == {"ha/sensor/gw-a/a/config"}


def test_what_did_not_change_is_not_told_again() -> None:
    sensors = [configured(Sensor("a")), configured(Switch("b"))]
    first = begin(ON, sensors, {})
    assert Announcements(ON, GATEWAY, sensors).begin(first) == []
    first[GATEWAY.availability_topic] = b"offline"
    (entry,) = Announcements(ON, GATEWAY, sensors).begin(first)
    assert (entry.topic, entry.payload) == (GATEWAY.availability_topic, b"online")
    (entry,) = Announcements(ON, GATEWAY, sensors).end()
    assert (entry.topic, entry.payload) == (GATEWAY.availability_topic, b"offline")


def test_it_is_off_unless_it_is_asked_for() -> None:
    off = Announcements(HomeAssistantSection(), GATEWAY, [configured(Switch("a"))])
    assert (off.begin({}), off.end(), off.actuators) == ([], [], {})


def test_each_class_that_a_gateway_tells_by_itself_is_one_of_home_assistants() -> None:
    told = {shown.device_class for shown in UNITS.values()} - {None}
    assert told <= DEVICE_CLASSES["sensor"]
    assert told <= DEVICE_CLASSES["number"]
