"""Goal: a sensor is read once before it is saved, and whatever its driver does harms nobody."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import pytest

from gateway.sensors.catalogue import Workshop
from gateway.sensors.options import SensorConfigError
from gateway.sensors.trying import SensorTrials, TrialFailedError, TriedSensor
from gateway.tools import cli

OWN = """
import asyncio
import sys
import threading
import time

from gateway.sensors.sensor import Sensor

let_go = threading.Event()


class Own(Sensor):
    unit = "Cel"
    closed = 0

    def __init__(self, name, *, does="read", **options):
        super().__init__(name, **options)
        self.does = does
        if does == "hang at once":
            let_go.wait(60)

    def read(self):
        match self.does:
            case "hang":
                let_go.wait(60)
            case "raise":
                raise OSError("no answer on the bus")
            case "exit":
                sys.exit(3)
            case "nothing":
                return None
            case "two":
                return {"a": 1.0, "b": "x"}
            case "later":
                return self.later()
        return 21.5

    async def later(self):
        await asyncio.sleep(0)
        return 22.5

    def close(self):
        Own.closed += 1
        if self.does == "two":
            raise OSError("it is closed already")
"""


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    (tmp_path / "own_tried.py").write_text(OWN)
    tmp_path.chmod(0o755)
    return Workshop(tmp_path)


def table(does: str) -> dict[str, object]:
    return {"type": "own_tried:Own", "name": "own", "does": does}


@pytest.mark.parametrize(
    ("does", "found"),
    [
        ("read", [TriedSensor("own", 21.5, "Cel", "good")]),
        ("later", [TriedSensor("own", 22.5, "Cel", "good")]),
        ("raise", [TriedSensor("own", None, "Cel", why="OSError: no answer on the bus")]),
        ("nothing", [TriedSensor("own", None, "Cel", why="read None, which is no value")]),
        ("two", [TriedSensor("own/a", 1.0, "", "good"), TriedSensor("own/b", "x", "", "good")]),
    ],
)
def test_what_it_reads_or_what_keeps_it_from_that(
    workshop: Workshop, does: str, found: list[TriedSensor]
) -> None:
    came = SensorTrials().tried(workshop, table(does))
    if does == "nothing":
        assert came[0].value is None
        assert "None" in came[0].why
    else:
        assert came == found


def test_a_driver_that_ends_the_process_ends_its_trial(workshop: Workshop) -> None:
    with pytest.raises(TrialFailedError, match="SystemExit"):
        SensorTrials().tried(workshop, table("exit"))


@pytest.mark.parametrize("does", ["hang", "hang at once"])
def test_one_that_hangs_is_left_alone_and_few_may(workshop: Workshop, does: str) -> None:
    trials = SensorTrials(most=2)
    for _ in range(2):
        with pytest.raises(TrialFailedError, match=r"within 0\.2 s"):
            trials.tried(workshop, table(does), limit_s=0.2)
    with pytest.raises(TrialFailedError, match="others are tried, or hang"):
        trials.tried(workshop, table("read"))
    hanging = [one for one in threading.enumerate() if one.name == "sensor trial"]
    assert hanging
    assert all(one.daemon for one in hanging)
    import own_tried  # type: ignore[import-not-found]  # found behind all that is installed

    own_tried.let_go.set()
    end_s = time.monotonic() + 60
    while time.monotonic() < end_s:
        try:
            assert trials.tried(workshop, table("read"))
            return
        except TrialFailedError:  # its thread has not come back yet
            time.sleep(0.01)
    pytest.fail("no room came back")


def test_a_table_that_is_wrong_is_told_by_its_key(workshop: Workshop) -> None:
    with pytest.raises(SensorConfigError, match="pin: 99"):
        SensorTrials().tried(workshop, {"type": "gpio-in", "name": "a", "pin": 99})
    with pytest.raises(SensorConfigError, match="only the configuration may name a class"):
        SensorTrials().tried(workshop, table("read"), is_afar=True)


def test_of_one_whose_readings_come_by_themselves_that_is_said() -> None:
    made = {"type": "mqtt", "name": "door", "topic": "zigbee2mqtt/door"}
    (found,) = SensorTrials().tried(Workshop(), made)
    assert found.value is None
    assert "zigbee2mqtt/door" in found.why


def test_a_command_tries_without_a_gateway(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["sensors", "try", "host", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert {"host/load1", "host/memory"} <= {one["name"] for one in told}
    assert cli.main(["sensors", "try", "switch"]) == 0
    assert capsys.readouterr().out.split()[:2] == ["try", "0"]
    assert cli.main(["sensors", "try", "switch", "speed=1"]) == 2
    assert "speed: unknown key" in capsys.readouterr().err
    assert cli.main(["sensors", "try"]) == 2
    assert "a type, as in switch" in capsys.readouterr().err
    assert cli.main(["sensors", "try", "sht3x", "bus=250"]) == 1
    assert cli.main(["sensors", "add", "type=switch", "name=a", "--dry-run"]) == 2
    assert "--dry-run: it is for --in-file" in capsys.readouterr().err


@pytest.fixture
def configuration(tmp_path: Path) -> Path:
    (tmp_path / "tree.key").write_text("ab" * 32)
    (tmp_path / "tree.key").chmod(0o600)
    file = tmp_path / "gw.toml"
    file.write_text(
        '[gateway]\nid = "gw"\nstate_dir = "state"\n\n[tree]\nkey_file = "tree.key"\ntls = "off"\n'
        'discovery = false\n\n# In the yard.\n[[sensors]]\ntype = "switch"\nname = "pump"  # new\n'
    )
    return file


def test_the_tables_of_a_configuration_come_change_and_go_and_its_comments_stay(
    configuration: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def sensors(*words: str) -> int:
        return cli.main(["sensors", *words, "--in-file", "--config", str(configuration)])

    first = configuration.read_text()
    assert sensors("change", "pump", "interval_s=5") == 0
    assert configuration.read_text() == first + "interval_s = 5\n"
    assert sensors("change", "pump", "interval_s=") == 0
    assert configuration.read_text() == first
    assert sensors("add", "type=switch", "name=fan") == 0
    assert 'name = "fan"' in configuration.read_text()
    assert sensors("remove", "fan") == 0
    assert configuration.read_text().rstrip() == first.rstrip()
    capsys.readouterr()
    for words, code, why in (
        (("add", "type=switch", "name=pump"), 2, "a second sensor named 'pump'"),
        (("add", "type=gpio", "name=a"), 2, "is none of"),
        (("change", "fan", "interval_s=5"), 2, "has the name or type 'fan'"),
        (("change", "pump", "type"), 2, "is not KEY=VALUE"),
        (("change", "pump"), 2, "which key"),
        (("remove",), 2, "the name of one sensor"),
        (("list",), 2, "it is for add, change and remove"),
    ):
        assert sensors(*words) == code
        assert why in capsys.readouterr().err
    assert configuration.read_text().rstrip() == first.rstrip()
