"""Rules of Home Assistant for a discovery message, written down from its documentation.

Its pages "MQTT" (section "MQTT Discovery") and "MQTT Sensor", "Binary Sensor", "Switch",
"Number" and "Text" name the keys; "Sensor" (developers' documentation, "Available device classes"
and "Available state classes") names the units and which classes measure an amount. Only what a
gateway could send is here: a key that is not below is refused by `check`.
"""

from __future__ import annotations

import json
import re
from typing import Any

TOPIC = re.compile(r"([a-zA-Z0-9_-]+)/([a-z_]+)/([a-zA-Z0-9_-]+)/([a-zA-Z0-9_-]+)/config")

_TEXT, _NUMBER = (str,), (int, float)
_EVERY: dict[str, tuple[type, ...]] = {
    "availability_topic": _TEXT,
    "device": (dict,),
    "device_class": _TEXT,
    "icon": _TEXT,
    "name": _TEXT,
    "origin": (dict,),
    "payload_available": _TEXT,
    "payload_not_available": _TEXT,
    "qos": (int,),
    "state_topic": _TEXT,
    "unique_id": _TEXT,
    "value_template": _TEXT,
}
_ON_AND_OFF: dict[str, tuple[type, ...]] = {"payload_on": _TEXT, "payload_off": _TEXT}
KEYS: dict[str, dict[str, tuple[type, ...]]] = {
    "sensor": {
        **_EVERY,
        "expire_after": (int,),
        "state_class": _TEXT,
        "suggested_display_precision": (int,),
        "unit_of_measurement": _TEXT,
    },
    "binary_sensor": {
        **_EVERY,
        **_ON_AND_OFF,
        "expire_after": (int,),
        "json_attributes_topic": _TEXT,
        "off_delay": (int,),
    },
    "switch": {
        **_EVERY,
        **_ON_AND_OFF,
        "command_topic": _TEXT,
        "state_on": _TEXT,
        "state_off": _TEXT,
    },
    "number": {
        **_EVERY,
        "command_topic": _TEXT,
        "min": _NUMBER,
        "max": _NUMBER,
        "mode": _TEXT,
        "step": _NUMBER,
        "unit_of_measurement": _TEXT,
    },
    "text": {
        **_EVERY,
        "command_topic": _TEXT,
        "max": (int,),
        "min": (int,),
        "mode": _TEXT,
        "pattern": _TEXT,
    },
}
REQUIRED = {
    "sensor": {"state_topic"},
    "binary_sensor": {"state_topic"},
    "switch": {"command_topic"},
    "number": {"command_topic"},
    "text": {"command_topic"},
}
DEVICE_KEYS = {"identifiers", "name", "manufacturer", "model", "sw_version"}
UNITS: dict[str, set[str | None]] = {
    "battery": {"%"},
    "current": {"A", "mA"},
    "data_rate": {"bit/s", "kbit/s", "Mbit/s", "B/s"},
    "data_size": {"bit", "B", "kB", "MB", "GB"},
    "distance": {"km", "m", "cm", "mm"},
    "duration": {"d", "h", "min", "s", "ms"},
    "energy": {"MJ", "GJ", "Wh", "kWh", "MWh"},
    "frequency": {"Hz", "kHz", "MHz", "GHz"},
    "humidity": {"%"},
    "illuminance": {"lx"},
    "irradiance": {"W/m²"},
    "moisture": {"%"},
    "ph": {None},
    "power": {"W", "kW"},
    "pressure": {"Pa", "hPa", "kPa", "bar", "mbar"},
    "signal_strength": {"dB", "dBm"},
    "speed": {"m/s", "km/h"},
    "temperature": {"°C", "°F", "K"},
    "voltage": {"V", "mV"},
    "volume": {"L", "mL", "m³"},
    "weight": {"kg", "g", "mg"},
}
BINARY_CLASSES = {"door", "window", "motion", "moisture", "problem", "running"}
AMOUNTS = {"energy", "volume"}
"""Device classes whose state class is never ``measurement``."""


def check(topic: str, payload: bytes) -> dict[str, Any]:
    """A discovery message's fields, if Home Assistant would take them."""
    found = TOPIC.fullmatch(topic)
    assert found, f"{topic} is no discovery topic"
    component = found[2]
    fields: dict[str, Any] = json.loads(payload)
    keys = KEYS[component]
    assert REQUIRED[component] <= fields.keys(), fields
    for key, value in fields.items():
        assert key in keys, f"{component} has no key {key}"
        assert isinstance(value, keys[key]), f"{key}: {value!r}"
        if key.endswith("_topic"):
            assert not set("+#\0") & set(value), f"{key}: {value!r}"
    assert fields["qos"] in (0, 1, 2)
    assert fields["device"]["identifiers"], "a device needs an identifier or a connection"
    assert fields["device"].keys() <= DEVICE_KEYS
    assert fields["origin"]["name"]
    _check_classes(component, fields)
    if component == "text":
        assert 0 <= fields.get("min", 0) <= fields.get("max", 255) <= 255
    if component == "number":
        assert fields["min"] < fields["max"]
        assert fields["step"] >= 0.001
        assert fields["mode"] in ("auto", "box", "slider")
    return fields


def _check_classes(component: str, fields: dict[str, Any]) -> None:
    device_class, state_class = fields.get("device_class"), fields.get("state_class")
    assert state_class in (None, "measurement", "total", "total_increasing")
    if component == "binary_sensor":
        assert device_class is None or device_class in BINARY_CLASSES
    elif device_class is not None:
        assert fields.get("unit_of_measurement") in UNITS[device_class], fields
        assert not (device_class in AMOUNTS and state_class == "measurement"), fields
