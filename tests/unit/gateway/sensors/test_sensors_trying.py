"""Goal: a sensor is read once before it is saved, and whatever its driver does harms nobody."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import psutil
import pytest
from driver_children import driver_children

from gateway.sensors import driver_process
from gateway.sensors.driver_process import ChildFailedError, DriverProcesses, DriverRequest
from gateway.sensors.options import SensorConfigError
from gateway.sensors.trying import SensorTrials, TrialFailedError, TrialLateError, TriedSensor
from gateway.tools import cli

OWN = """
import asyncio
import os
import pathlib
import subprocess
import sys
import time

from gateway.sensors.sensor import Sensor


class Own(Sensor):
    unit = "Cel"
    closed = 0

    def __init__(self, name, *, does="read", **options):
        super().__init__(name, **options)
        self.does = does
        if does == "hang at once":
            time.sleep(3600)

    def read(self):
        match self.does:
            case "hang":
                time.sleep(3600)
            case "hang with a child":
                child = subprocess.Popen(["sleep", "3600"])
                pathlib.Path(__file__).with_name(f"child-{child.pid}").touch()
                time.sleep(3600)
            case "end the process":
                os._exit(7)
            case "be killed":
                os.kill(os.getpid(), 9)
            case "talk nonsense":
                for number in range(3, 32):
                    try:
                        os.write(number, b"\\xc1" * 100)
                    except OSError:
                        pass
            case "print":
                print("I am a driver", flush=True)
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
def folder(tmp_path: Path) -> Path:
    (tmp_path / "own_tried.py").write_text(OWN)
    tmp_path.chmod(0o755)
    return tmp_path


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
    folder: Path, does: str, found: list[TriedSensor]
) -> None:
    came = SensorTrials().tried(folder, table(does))
    if does == "nothing":
        assert came[0].value is None
        assert "None" in came[0].why
    else:
        assert came == found


@pytest.mark.parametrize("does", ["hang", "hang at once", "hang with a child"])
def test_one_that_hangs_is_killed_with_all_that_it_has_started_and_the_next_is_tried(
    folder: Path, does: str
) -> None:
    trials = SensorTrials(most=1)
    for _ in range(3):
        with pytest.raises(TrialLateError, match=r"within 0\.2 s"):
            trials.tried(folder, table(does), limit_s=0.2)
    assert trials.tried(folder, table("read"))
    assert not driver_children()
    for file in folder.glob("child-*"):
        assert is_over(int(file.name.removeprefix("child-")))


def is_over(pid: int) -> bool:
    """Return whether a process has ended, or is about to be reaped by its new parent."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_while_one_is_tried_few_others_may_be(folder: Path) -> None:
    trials = SensorTrials(most=1)
    late: list[Exception] = []

    def hang() -> None:
        try:
            trials.tried(folder, table("hang"), limit_s=5)
        except TrialLateError as error:
            late.append(error)

    hanging = threading.Thread(target=hang)
    hanging.start()
    end_s = time.monotonic() + 60
    while not driver_children() and time.monotonic() < end_s:
        time.sleep(0.01)
    with pytest.raises(TrialLateError, match="others are tried, or hang"):
        trials.tried(folder, table("read"))
    hanging.join()
    assert late
    assert trials.tried(folder, table("read"))


@pytest.mark.parametrize(
    ("does", "why"),
    [
        ("exit", "SystemExit"),
        ("end the process", "has ended its process, with code 7"),
        ("be killed", "has ended its process, with signal 9"),
        ("talk nonsense", "its process says what makes no sense"),
    ],
)
def test_whatever_becomes_of_its_process_is_told_in_words(
    folder: Path, does: str, why: str
) -> None:
    with pytest.raises(TrialFailedError, match=why):
        SensorTrials().tried(folder, table(does))


def test_what_it_prints_is_no_answer(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert SensorTrials().tried(folder, table("print")) == [TriedSensor("own", 21.5, "Cel", "good")]
    assert "I am a driver" in capfd.readouterr().err


def test_a_table_that_is_wrong_is_told_by_its_key(folder: Path) -> None:
    with pytest.raises(SensorConfigError, match="pin: 99"):
        SensorTrials().tried(folder, {"type": "gpio-in", "name": "a", "pin": 99})
    with pytest.raises(SensorConfigError, match="only the configuration may name a class"):
        SensorTrials().tried(folder, table("read"), is_afar=True)


def test_of_one_whose_readings_come_by_themselves_that_is_said() -> None:
    made = {"type": "mqtt", "name": "door", "topic": "zigbee2mqtt/door"}
    (found,) = SensorTrials().tried(None, made)
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


def test_a_process_that_says_nothing_at_all_is_ended_and_told_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(driver_process, "START_S", 0.0)
    request = DriverRequest("build", None, [("sensors[0]", {"type": "switch"})], False, 1.0)
    processes = DriverProcesses(1)
    for _ in range(2):  # the room of the first is given back
        with pytest.raises(ChildFailedError, match=r"^no Python has come up within 0 s$") as raised:
            processes.come_of(request)
        assert raised.value.where == ""
