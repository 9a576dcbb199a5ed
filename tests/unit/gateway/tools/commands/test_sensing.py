"""`hedgerow sensors` here: drivers are listed, a sensor tried, and what is wrong is told."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from gateway.sensors.options import SensorConfigError
from gateway.sensors.trying import SensorTrials, TrialFailedError, TrialLateError, TriedSensor
from gateway.tools.commands import configuring, sensing, sensors
from gateway.tools.commands.errors import FailedError, WrongUseError

Printed = pytest.CaptureFixture[str]
SWITCH = "switch"


def options(action: str, *what: str, as_json: bool = False) -> argparse.Namespace:
    return argparse.Namespace(action=action, what=list(what), json=as_json, timeout=3.0)


def tried(
    monkeypatch: pytest.MonkeyPatch, *found: TriedSensor | Exception
) -> list[tuple[Path | None, Mapping[str, Any], float]]:
    """Have trials come to this; return what they are asked for."""
    asked: list[tuple[Path | None, Mapping[str, Any], float]] = []

    def come(
        _: SensorTrials, folder: Path | None, table: Mapping[str, Any], *, limit_s: float
    ) -> list[Any]:
        asked.append((folder, table, limit_s))
        for one in found:
            if isinstance(one, Exception):
                raise one
        return list(found)

    monkeypatch.setattr(SensorTrials, "tried", come)
    return asked


GOOD = TriedSensor("hall\x1b", 21.5, "Cel", "good", "")
RAW = TriedSensor("raw", b"\x00\xff", "", "uncertain", "")
NONE = TriedSensor("none", None, "", "bad", "no answer")


def test_a_sensor_that_is_tried_is_a_line_and_an_object(
    capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = tried(monkeypatch, GOOD, RAW)
    assert sensing.here(options("try", SWITCH, "pin=4"), None) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines] == [
        ["hall\\x1b", "21.5", "Cel", "good"],
        ["raw", "AP8", "uncertain"],
    ]
    ((folder, table, limit_s),) = asked
    assert (folder, table["type"], table["pin"], limit_s) == (None, SWITCH, 4, 3.0)
    assert sensing.here(options("try", SWITCH, as_json=True), None) == 0
    first, second = json.loads(capsys.readouterr().out)
    assert first == {"name": "hall\x1b", "value": 21.5, "unit": "Cel", "quality": "good", "why": ""}
    assert second["value"] == "AP8"


def test_a_sensor_that_has_not_read_is_a_failure_with_its_reason(
    capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried(monkeypatch, GOOD, NONE)
    assert sensing.here(options("try", SWITCH), None) == 1
    assert capsys.readouterr().out.splitlines()[1].split() == ["none", "-", "no", "answer"]
    assert sensing.here(options("try", SWITCH, as_json=True), None) == 1
    assert json.loads(capsys.readouterr().out)[1]["why"] == "no answer"


@pytest.mark.parametrize(
    ("error", "kind", "why"),
    [
        (SensorConfigError("sensors[0].pin", "is needed"), WrongUseError, "pin: is needed"),
        (SensorConfigError("sensors[0]", "is none"), WrongUseError, f"{SWITCH}: is none"),
        (TrialFailedError("it has ended"), FailedError, f"{SWITCH}: it has ended"),
        (TrialLateError("no answer within 3 s"), FailedError, f"{SWITCH}: no answer within 3 s"),
    ],
)
def test_a_trial_that_is_none_names_the_key_or_the_type(
    error: Exception, kind: type[Exception], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried(monkeypatch, error)
    with pytest.raises(kind) as failed:
        sensing.here(options("try", SWITCH), None)
    assert str(failed.value) == why


@pytest.mark.parametrize(
    ("action", "what", "why"),
    [
        ("try", ("swich",), "try: "),
        ("drivers", ("swich",), "drivers: "),
        ("try", (), "try: a type, as in switch, is needed first, then KEY=VALUE"),
        ("try", ("type=switch",), "try: a type, as in switch, is needed first, then KEY=VALUE"),
    ],
)
def test_a_type_that_there_is_not_is_told(action: str, what: Sequence[str], why: str) -> None:
    with pytest.raises(WrongUseError) as refused:
        sensing.here(options(action, *what), None)
    assert str(refused.value).startswith(why)
    assert what != ("swich",) or "swich" in str(refused.value)


CONFIGURATION = (
    '[gateway]\nid = "gw"\nstate_dir = "state"\n'
    '[tree]\nkey_file = "tree.key"\ntls = "off"\ndiscovery = false\n'
)


@pytest.mark.parametrize(
    ("text", "folder"),
    [
        (CONFIGURATION, ""),
        (CONFIGURATION.replace('state"', 'state"\nsensors_dir = "own"', 1), "own"),
        ("[gateway]\n", ""),
        (f"{CONFIGURATION}nonsense = 1\n", ""),
    ],
)
def test_own_classes_are_beside_the_configuration_though_that_is_wrong(
    text: str, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tree.key").touch(mode=0o600)
    (tmp_path / "tree.key").write_text("ab" * 32)
    (tmp_path / "own").mkdir()
    file = tmp_path / "gateway.toml"
    file.write_text(text)
    asked = tried(monkeypatch, GOOD)
    assert sensing.here(options("try", SWITCH), file) == 0
    assert asked[0][0] == tmp_path / folder


# -- in the configuration --------------------------------------------------------------------------

BEFORE = """[[sensors]]  # one
type = "switch"
name = "pump"
[[sensors]]
type = "cpu"
[[sensors]]
name = "twice"
[[sensors]]
name = "twice"
"""


def changed(monkeypatch: pytest.MonkeyPatch, action: str, *what: str) -> str:
    """Return the configuration after a change, which is not tried."""
    after: list[str] = []

    def change(_: argparse.Namespace, file: Path, edit: Any) -> int:
        assert file == Path("gateway.toml")
        after.append(edit(BEFORE))
        return 0

    monkeypatch.setattr(configuring, "change", change)
    assert sensing.in_file(options(action, *what), Path("gateway.toml")) == 0
    return after[0]


def test_a_sensor_is_added_changed_and_removed_by_its_name_or_type(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    added = changed(monkeypatch, "add", "type=switch", "name=valve")
    assert added.startswith(BEFORE)
    assert 'name = "valve"' in added.removeprefix(BEFORE)
    assert changed(monkeypatch, "change", "pump", "name=valve") == BEFORE.replace("pump", "valve")
    without = changed(monkeypatch, "remove", "cpu")
    assert without == BEFORE.replace('[[sensors]]\ntype = "cpu"\n', "")


@pytest.mark.parametrize("name", ["twice", "none"])
def test_a_sensor_whose_name_says_not_which_one_is_meant_stays(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for action, more in (("remove", ()), ("change", ("unit=Cel",))):
        with pytest.raises(Exception, match="no table of sensors, or more than one") as failed:
            changed(monkeypatch, action, name, *more)
        assert f"has the name or type {name!r}" in str(failed.value)


@pytest.mark.parametrize(
    ("action", "what", "why"),
    [
        ("remove", (), "remove: the name of one sensor is needed"),
        ("remove", ("a", "b"), "remove: the name of one sensor is needed"),
        ("list", (), "--in-file: it is for add, change and remove"),
        ("change", ("pump",), "change: which key, as in interval_s=5, is needed"),
        ("change", (), "change: the name of one sensor, is needed first, then KEY=VALUE"),
        ("add", (), "add: which sensor, as in type=switch name=pump, is needed"),
        ("add", ("pump",), "add: 'pump' is not KEY=VALUE"),
        ("add", ("=1",), "add: '=1' is not KEY=VALUE"),
        ("add", ("a=1", "a.b=2"), "add: a is given as a value and as a table"),
    ],
)
def test_words_that_say_no_change_are_refused(
    action: str, what: Sequence[str], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(WrongUseError) as refused:
        changed(monkeypatch, action, *what)
    assert str(refused.value) == why


@pytest.mark.parametrize("names", [[], ["a", "b"], [""]])
def test_one_sensor_alone_is_removed_from_a_gateway(names: list[str]) -> None:
    with pytest.raises(WrongUseError, match=r"^remove: the name of one sensor is needed$"):
        sensors.path(names)
    assert sensors.path(["a b/c"]) == "/sensors/a%20b/c"


def test_values_are_those_of_toml_or_texts_and_an_empty_one_takes_a_key_out() -> None:
    given = ["pin=4", "name=pump", "on=true", 'unit="1"', "map.a=1", "map.b=x", "f=1.5"]
    assert sensors.table(given) == {
        "pin": 4,
        "name": "pump",
        "on": True,
        "unit": "1",
        "map": {"a": 1, "b": "x"},
        "f": 1.5,
    }
    assert sensors.changes(["unit=", "pin=5"]) == {"unit": None, "pin": 5}
    assert sensors.changes(["unit="]) == {"unit": None}


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"dry_run": True}, "--dry-run"),
        ({"no_apply": True}, "--no-apply"),
        ({"if_unchanged": "x"}, "--if-unchanged"),
    ],
)
def test_options_of_a_changed_configuration_are_for_one(given: dict[str, Any], name: str) -> None:
    usual = {"dry_run": False, "no_apply": False, "if_unchanged": None, "in_file": False}
    sensors.check_options(argparse.Namespace(**usual))
    sensors.check_options(argparse.Namespace(**(usual | given | {"in_file": True})))
    with pytest.raises(WrongUseError) as refused:
        sensors.check_options(argparse.Namespace(**(usual | given)))
    assert str(refused.value) == f"{name}: it is for --in-file"


def test_sensors_are_a_table_with_their_state() -> None:
    pump = {
        "name": "pump",
        "type": "",
        "kind": "actuator",
        "unit": "",
        "interval_s": 0.5,
        "is_added": True,
        "state": "good",
    }
    hall = pump | {"name": "hall", "type": "ds18b20", "unit": "Cel", "is_added": False}
    lines = sensors.as_table([pump, hall | {"state": "bad"}]).splitlines()
    assert [line.split() for line in lines[1:]] == [
        ["pump", "-", "actuator", "-", "0.5", "s", "added", "good"],
        ["hall", "ds18b20", "actuator", "Cel", "0.5", "s", "configuration", "bad"],
    ]
