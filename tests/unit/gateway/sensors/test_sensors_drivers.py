"""A sensor class of one's own: found beside the configuration, named in full where it is not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import installed_package
import pytest

from gateway.process.configuration.config import GatewaySettings, load
from gateway.sensors.catalogue import build_sensors
from gateway.sensors.options import SensorConfigError
from gateway.sensors.sensor import Sensor

SOIL = """
from gateway.sensors.sensor import Sensor

class Soil(Sensor):
    unit = "%RH"

    def __init__(self, name, *, channel=1, **options):
        super().__init__(name, **options)
        self.channel = channel

    def read(self):
        return 10.0 * self.channel
"""
TABLE = {"type": "soil:Soil", "name": "bed/1"}


@pytest.fixture(autouse=True)
def search_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))


def built(folder: Path | None, **changed: object) -> Sensor:
    (one,) = build_sensors([{**TABLE, **changed}], folder=folder)
    return one.sensor


def refused(folder: Path | None, **changed: object) -> str:
    with pytest.raises(SensorConfigError) as raised:
        built(folder, **changed)
    text = str(raised.value)
    assert "\n" not in text
    return text


def test_a_class_is_found_in_the_folder(tmp_path: Path) -> None:
    (tmp_path / "soil.py").write_text(SOIL)
    sensor = built(tmp_path, channel=3)
    assert (sensor.read(), sensor.unit, sensor.name) == (30.0, "%RH", "bed/1")


def test_a_package_is_found_with_its_modules(tmp_path: Path) -> None:
    package = tmp_path / "farm"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "scale.py").write_text("FACTOR = 10.0\n")
    (package / "beds.py").write_text("from .scale import FACTOR\n" + SOIL)
    assert built(tmp_path, type="farm.beds:Soil").read() == 10.0


def test_a_driver_may_import_a_file_beside_it(tmp_path: Path) -> None:
    (tmp_path / "my_own_bus.py").write_text("def read():\n    return 7.0\n")
    driver = SOIL.replace("return 10.0 * self.channel", "return my_own_bus.read()")
    (tmp_path / "soil.py").write_text("import my_own_bus\n" + driver)
    assert built(tmp_path).read() == 7.0


def test_a_driver_may_have_the_name_of_a_module_of_python_and_does_not_stand_in_for_it(
    tmp_path: Path,
) -> None:
    import calendar

    (tmp_path / "calendar.py").write_text(SOIL)
    (tmp_path / "colorsys.py").write_text("raise SystemExit('the wrong one')\n")
    assert built(tmp_path, type="calendar:Soil").read() == 10.0
    assert sys.modules["calendar"] is calendar
    sys.modules.pop("colorsys", None)
    import colorsys

    assert colorsys.rgb_to_hsv(0, 0, 0) == (0.0, 0.0, 0)


def test_nothing_in_the_folder_is_run_or_searched_that_no_sensor_names(tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text("raise SystemExit('nobody asked')\n")
    before = list(sys.path)
    build_sensors([{"type": "switch", "name": "a"}], folder=tmp_path)
    assert "is no subclass" in refused(tmp_path, type="os:getcwd")
    assert sys.path == before


def test_the_same_name_in_another_folder_is_another_class(tmp_path: Path) -> None:
    for number in (1, 2):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "soil.py").write_text(SOIL.replace("10.0", f"{number}.0"))
    assert [built(tmp_path / number).read() for number in ("1", "2")] == [1.0, 2.0]


def test_a_class_that_is_nowhere_is_named_with_where_it_was_looked_for(tmp_path: Path) -> None:
    text = refused(tmp_path)
    assert text.startswith("sensors[0].type: 'soil:Soil': no soil.py in ")
    assert f"{tmp_path}, and no module 'soil' is installed" in text
    assert refused(None).endswith("'soil:Soil': no module 'soil' is installed")


def test_a_file_without_the_class_is_named_with_the_classes_it_has(tmp_path: Path) -> None:
    (tmp_path / "soil.py").write_text(SOIL.replace("class Soil", "class Soyl"))
    assert refused(tmp_path) == (
        f"sensors[0].type: 'soil:Soil': no class 'Soil' in {tmp_path}/soil.py; it has Soyl"
    )


def test_a_class_that_is_no_sensor_is_named_with_its_file(tmp_path: Path) -> None:
    (tmp_path / "soil.py").write_text("class Soil:\n    pass\n")
    text = refused(tmp_path)
    assert text == f"sensors[0].type: 'soil:Soil' is no subclass of Sensor ({tmp_path}/soil.py)"


@pytest.mark.parametrize(
    ("source", "named"),
    [
        ("x = 1\nclass Soil(:\n", "line 2: SyntaxError"),
        ("import no_such_bus\n", "line 1: ModuleNotFoundError: No module named 'no_such_bus'"),
        ("\n\nraise OSError('no bus')\n", "line 3: OSError: no bus"),
        ("1 / 0\n", "line 1: ZeroDivisionError"),
        ("raise RuntimeError('two\\nlines')\n", "line 1: RuntimeError: two\\nlines"),
    ],
)
def test_a_file_that_can_not_be_imported_is_named_with_its_line(
    tmp_path: Path, source: str, named: str
) -> None:
    (tmp_path / "soil.py").write_text(source)
    assert f"'soil:Soil': {tmp_path}/soil.py: {named}" in refused(tmp_path)
    (tmp_path / "soil.py").write_text(SOIL)  # mended, it is found
    os.utime(tmp_path / "soil.py", (1, 1))
    assert built(tmp_path).read() == 10.0


def test_a_class_that_keeps_something_else_under_a_name_of_the_gateways_is_refused(
    tmp_path: Path,
) -> None:
    (tmp_path / "soil.py").write_text(SOIL.replace("self.channel = channel", "self.children = []"))
    text = refused(tmp_path)
    assert text.startswith("sensors[0]: soil:Soil: its 'children' are the gateway's")


def test_a_constructor_that_raises_anything_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "soil.py").write_text(SOIL.replace("self.channel = channel", "raise KeyError('x')"))
    assert refused(tmp_path) == "sensors[0]: soil:Soil: KeyError: 'x'"
    assert "unexpected keyword argument 'chanel'" in refused(None, type=OWN, chanel=1)


OWN = f"{__name__}:Own"


class Own(Sensor):
    def read(self) -> float:
        return 0.0


@pytest.mark.parametrize("name", ["../soil:Soil", "/etc/soil:Soil", "soil.py/x:Soil", ":Soil"])
def test_a_name_is_no_way_out_of_the_folder(tmp_path: Path, name: str) -> None:
    (tmp_path / "soil.py").write_text(SOIL)
    assert "is not of the form module:Class" in refused(tmp_path / "inner", type=name)


def test_a_folder_or_file_that_everybody_can_write_to_is_not_used(tmp_path: Path) -> None:
    driver = tmp_path / "soil.py"
    driver.write_text(SOIL)
    driver.chmod(0o666)
    assert f"{driver} can be written by everybody" in refused(tmp_path)
    driver.chmod(0o644)
    tmp_path.chmod(0o1777)
    assert f"{tmp_path} can be written by everybody" in refused(tmp_path)


def test_a_file_may_be_named_itself(tmp_path: Path) -> None:
    (tmp_path / "drivers").mkdir()
    (tmp_path / "drivers" / "bed-1.py").write_text(SOIL)
    assert built(tmp_path, type="drivers/bed-1.py:Soil").read() == 10.0
    whole = tmp_path / "drivers" / "bed-1.py"
    assert built(None, type=f"{whole}:Soil").read() == 10.0
    assert f"no file {tmp_path}/bed-2.py" in refused(tmp_path, type="bed-2.py:Soil")
    assert "no class 'Clay'" in refused(tmp_path, type="drivers/bed-1.py:Clay")


def test_an_installed_package_gives_its_class_a_type_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "farm.py").write_text(SOIL)
    points = {"soil": "farm:Soil", "clay": "farm:Clay"}
    installed_package.write(tmp_path, "farm", "hedgerow.sensors", points)
    monkeypatch.syspath_prepend(tmp_path)
    assert built(None, type="soil").read() == 10.0
    assert "no class 'Clay'" in refused(None, type="clay")
    assert "'loam' is none of bme280, clay, " in refused(None, type="loam")


# -- from the configuration file -------------------------------------------------------------------

CONFIG = """
[gateway]
id = "gw"
state_dir = "{folder}/state"
{more}
[mqtt]
port = 0
[coap]
port = 0
[tree]
key_file = "{folder}/tree.key"
discovery = false
tls = "off"
[[sensors]]
type = "soil:Soil"
name = "bed/1"
"""


def configured(folder: Path, more: str = "") -> Path:
    (folder / "tree.key").write_text("ab" * 32)
    config = folder / "gateway.toml"
    config.write_text(CONFIG.format(folder=folder, more=more))
    return config


def test_the_folder_is_the_configurations_own_unless_it_names_another(tmp_path: Path) -> None:
    assert load(configured(tmp_path), GatewaySettings).sensors_dir == tmp_path
    given = configured(tmp_path, 'sensors_dir = "drivers"')
    assert load(given, GatewaySettings).sensors_dir == tmp_path / "drivers"
    given = configured(tmp_path, 'sensors_dir = "/srv/drivers"')
    assert load(given, GatewaySettings).sensors_dir == Path("/srv/drivers")


@pytest.mark.parametrize(
    ("more", "driver", "named"),
    [
        ("", "soil.py", "soil.py: line 1: RuntimeError: it was found"),
        ('sensors_dir = "drivers"', "drivers/soil.py", "drivers/soil.py: line 1: RuntimeError"),
        ('sensors_dir = "drivers"', "soil.py", "gateway.sensors_dir: {folder}/drivers: no such"),
    ],
)
def test_a_gateway_finds_a_driver_without_pythonpath(
    tmp_path: Path, more: str, driver: str, named: str
) -> None:
    config = configured(tmp_path, more)
    (tmp_path / driver).parent.mkdir(exist_ok=True)
    (tmp_path / driver).write_text("raise RuntimeError('it was found')\n")
    done = subprocess.run(
        [sys.executable, "-m", "gateway.tools.cli", "run", "--config", str(config)],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert named.format(folder=tmp_path) in line


def test_an_installed_module_that_can_not_be_imported_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "field_bus_of_ours.py").write_text("raise OSError('no bus')\n")
    (tmp_path / "field_bus_half.py").write_text("import field_bus_lacking\n")
    sys.path.append(str(tmp_path))
    told = refused(None, type="field_bus_of_ours:Soil")
    assert told.endswith("'field_bus_of_ours:Soil': OSError: no bus")
    told = refused(None, type="field_bus_half:Soil")
    assert told.endswith("ModuleNotFoundError: No module named 'field_bus_lacking'")
    told = refused(tmp_path / "own", type="field_bus_none:Soil")
    assert told.endswith(
        f"'field_bus_none:Soil': no field_bus_none.py in {tmp_path}/own,"
        " and no module 'field_bus_none' is installed"
    )
