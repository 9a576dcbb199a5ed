"""Goal: what a form offers for a driver is what the driver reads, and nothing else."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.sensors import catalogue
from gateway.sensors.catalogue import COMMON, KINDS, Workshop, described
from gateway.sensors.options import SensorConfigError, SensorOptions
from gateway.sensors.parameters import DriverParameter
from gateway.tools import cli

PAGE = Path(__file__).parents[4] / "docs/sensors.md"
SAMPLES: Mapping[str, Mapping[str, Any]] = {
    "bme280": {"name": "air"},
    "coap": {"name": "far", "uri": "coap://192.0.2.1/x"},
    "gpio-in": {"name": "door", "pin": 4},
    "gpio-out": {"name": "lamp", "pin": 5},
    "host": {},
    "i2c": {"name": "chip", "address": 0x20, "register": 1},
    "mqtt": {"name": "plug", "topic": "a/b", "command_topic": "a/set"},
    "onewire": {"device": "28-0316a2797b1e"},
    "replay": {"series": "module-temperature"},
    "sht3x": {"name": "air"},
    "switch": {"name": "pump"},
}
"""By type: a table that can be built anywhere."""
OWN = '''
from gateway.sensors.sensor import Sensor


class Soil(Sensor):
    """Soil moisture of a bed.

    Args:
        channel: of the converter,
            from 0.
        gain: of the amplifier.

    """

    def __init__(self, name: str, *, channel: int, gain: float = 1.5, wet: bool = False,
                 names: list[str] | None = None, tags: dict[str, str] | None = None,
                 label: "str | None" = None, odd=object(), **options: object) -> None:
        super().__init__(name, **options)

    def read(self):
        return 1.0
'''


class Noting(SensorOptions):
    """Options that note what is read of them."""

    def __init__(self, table: Mapping[str, Any]) -> None:
        super().__init__(table, "sensors[0]")
        self.taken: dict[str, DriverParameter] = {}

    def take(self, parameter: DriverParameter) -> Any:
        self.taken[parameter.name] = parameter
        return super().take(parameter)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_driver_reads_what_it_declares(kind: str) -> None:
    options = Noting(SAMPLES[kind])
    catalogue.driver_of(kind)(options)
    declared = {one.name: one for one in described(kind).parameters}
    for name, one in options.taken.items():
        assert declared[name] == one, name
    of_every = {one.name for one in COMMON}
    unread = set(declared) - set(options.taken) - of_every
    assert unread <= {"psk_file", "psk_identity"}, kind  # of coaps alone


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_table_with_all_defaults_said_is_taken(kind: str) -> None:
    table = {
        one.name: one.default
        for one in described(kind).parameters
        if one.default not in (None, "") and one.name != "device"
    }
    built = Workshop().build([{"type": kind, **table, **SAMPLES[kind]}])
    assert built


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_the_page_on_sensors_names_the_keys_of_each_type(kind: str) -> None:
    (row,) = re.findall(rf"^\| `{re.escape(kind)}` \|.*$", PAGE.read_text(), re.MULTILINE)
    own = {one.name for one in described(kind).parameters} - {one.name for one in COMMON}
    lacking = {name for name in own - {"payload"} if f"`{name}`" not in row}
    assert lacking == set()


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_each_parameter_says_what_it_is_for(kind: str) -> None:
    driver = described(kind)
    assert driver.text
    for one in driver.parameters:
        assert one.text, one.name
        assert one.kind != "choice" or one.choices, one.name
        assert one.default is None or not one.is_needed, one.name


@pytest.mark.parametrize(
    ("table", "named"),
    [
        ({"type": "gpio-in", "name": "a", "pin": 28}, "pin: 28 is not 0 to 27"),
        ({"type": "gpio-in", "name": "a"}, "pin: missing"),
        ({"type": "i2c", "name": "a", "address": 8, "register": 1, "width": 5}, "width: 5 is not"),
        ({"type": "i2c", "name": "a", "address": 8, "register": True}, "register: True is not"),
        ({"type": "mqtt", "name": "a", "topic": "x", "payload": "xml"}, "payload: 'xml' is none"),
        ({"type": "switch", "name": "a", "interval_s": float("inf")}, "interval_s: inf"),
        ({"type": "switch", "name": "a", "speed": 1}, "speed: unknown key"),
    ],
)
def test_what_is_no_value_of_a_parameter_is_refused_by_its_name(
    table: dict[str, Any], named: str
) -> None:
    with pytest.raises(SensorConfigError, match=re.escape(named)):
        Workshop().build([table])


def test_what_is_sent_here_may_not_say_what_is_near() -> None:
    table = {"type": "host", "disk": "/etc"}
    with pytest.raises(SensorConfigError, match="disk: only the configuration"):
        Workshop().build([table], is_afar=True)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "soil_form.py").write_text(OWN)
    tmp_path.chmod(0o755)
    return tmp_path


def test_a_class_of_ones_own_has_the_parameters_of_its_constructor(folder: Path) -> None:
    driver = described("soil_form:Soil", folder)
    assert driver.text == "Soil moisture of a bed."
    found = {one.name: one for one in driver.parameters}
    assert found["channel"].is_needed
    assert (found["channel"].kind, found["channel"].text) == ("whole", "of the converter, from 0.")
    assert (found["gain"].kind, found["gain"].default) == ("number", 1.5)
    assert (found["wet"].kind, found["wet"].default) == ("flag", False)
    assert (found["names"].kind, found["tags"].kind) == ("any", "table")
    assert (found["label"].kind, found["odd"].kind, found["odd"].default) == ("text", "any", None)
    assert "options" not in found
    assert found["name"].is_needed


def test_of_a_class_with_hints_that_nobody_can_resolve_any_value_is_taken(folder: Path) -> None:
    source = "from __future__ import annotations\n" + OWN.replace("channel: int", "channel: Pin")
    (folder / "soil_hints.py").write_text(source)
    found = {one.name: one for one in described("soil_hints:Soil", folder).parameters}
    assert {one.kind for name, one in found.items() if name != "name"} >= {"any"}
    assert (found["channel"].kind, found["channel"].is_needed) == ("any", True)
    assert (found["gain"].kind, found["gain"].default) == ("any", 1.5)


def test_drivers_are_listed_for_people_and_for_forms(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["sensors", "drivers"]) == 0
    assert "gpio-in" in capsys.readouterr().out
    assert cli.main(["sensors", "drivers", "gpio-in"]) == 0
    assert "whole 0 to 27" in capsys.readouterr().out
    assert cli.main(["sensors", "drivers", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [one["type"] for one in told] == sorted(KINDS)
    (pin, *_) = next(one for one in told if one["type"] == "gpio-in")["parameters"]
    assert (pin["name"], pin["range"], pin["is_needed"]) == ("pin", [0, 27], True)
    assert cli.main(["sensors", "drivers", "gpoi"]) == 2
    assert "none of bme280" in capsys.readouterr().err


JSON_VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.sampled_from((2**63, -(2**64), 10**400, 1e308, -0.0, 5e-324)),
        st.floats(),
        st.text(max_size=20),
        st.sampled_from(("coap://[", "coap://127.0.0.1:99999/x", "a/#", "\ud800", "\0", "%", "/")),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)
KEYS_OF = {kind: [one.name for one in described(kind).parameters] for kind in KINDS}


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_whatever_a_form_sends_is_a_sensor_or_an_error_that_names_a_key(
    data: st.DataObject,
) -> None:
    kind = data.draw(st.sampled_from(sorted(KINDS)))
    keys = st.sampled_from(KEYS_OF[kind]) | st.text(max_size=5)
    table = SAMPLES[kind] | data.draw(st.dictionaries(keys, JSON_VALUES, max_size=4))
    with contextlib.suppress(SensorConfigError):
        Workshop().build([{**table, "type": kind}], is_afar=True)


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("interval_s", 10**400, "inf is not finite"),
        ("resolution", -(10**400), "inf is not finite"),
        ("bus", 10**400, "is not 0 to 255"),
        ("attributes", {"": "x"}, "not of the form"),
        ("attributes", {"rt": "x"}, "rt|gateway"),
    ],
)
def test_a_number_or_an_attribute_that_can_be_none_is_named(key: str, value: Any, why: str) -> None:
    with pytest.raises(SensorConfigError, match=why) as told:
        Workshop().build([{"type": "sht3x", "name": "air", key: value}], is_afar=True)
    assert told.value.key.startswith(f"sensors[0].{key}")
    assert len(told.value.why) < 100
