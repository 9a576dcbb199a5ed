"""Attributes of a developer's class that no link can carry take no other links with them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from gateway.coap.sensors.resources import SensorResources
from gateway.coap.well_known import CountedSite
from gateway.sensors.catalogue import build_sensors
from gateway.sensors.device_resource import HANDLERS, ChildResource, ChildResources
from gateway.sensors.options import SensorConfigError
from gateway.sensors.sampler import Sampler
from gateway.sensors.sensor import Sensor
from gateway.sensors.switch import Switch
from tree_handler.members.place import Place


class Own(ChildResource):
    def __init__(self, **said: Any) -> None:
        for name, value in said.items():
            setattr(self, name, value)

    def handle_get(self, call: object) -> str:
        return "own"


@dataclass(frozen=True)
class Frozen(ChildResource):
    number: int = 1


class Raises(ChildResource):
    def __init__(self) -> None:
        """Do nothing, like a class that forgets `super().__init__`."""

    @property
    def handle_get(self) -> object:
        raise OSError("no bus")


class Probe(Sensor):
    def read(self) -> float:
        return 1.0


@pytest.mark.parametrize(
    ("child", "named"),
    [
        (object(), "object"),
        (Own(resource_type=5), "resource_type"),
        (Own(resource_type="two\nlines"), "resource_type"),
        (Own(interface=b"a"), "interface"),
        (Own(attributes={"rt": "a"}), r"attributes\.rt"),
        (Own(attributes={"position": 5}), r"attributes\.position"),
        (Own(attributes=7), "attributes"),
        (Own(content_formats=50), "content_formats"),
        (Own(content_formats=("50",)), "content_formats"),
        (Own(body_bytes_max="64"), "body_bytes_max"),
        (Frozen(), "follow_changes: FrozenInstanceError"),
        (Raises(), "handle_get.*no bus"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_child_that_no_link_can_carry_is_not_created(child: Any, named: str) -> None:
    children = ChildResources()
    with pytest.raises(ValueError, match=named):
        children.add("jobs/1", child)
    assert len(children) == 0


def test_a_class_that_no_link_can_carry_is_refused_at_the_start(tmp_path: Path) -> None:
    sensor = "from gateway.sensors.sensor import Sensor\nclass Own(Sensor):\n"
    for name, value in {
        "resource_type": "5",
        "interface": "['a']",
        "unit": "5",
        "size_bytes": "'big'",
        "body_bytes_max": "None",
        "kind": "'nonsense'",
        "parts.a": "{'a': 'Cel'}",
    }.items():
        attribute = name.partition(".")[0]
        (tmp_path / f"own_{attribute}.py").write_text(f"{sensor}    {attribute} = {value}\n")
        table = {"type": f"own_{attribute}:Own", "name": "bed"}
        wrong = rf"sensors\[0\]: own_{attribute}:Own: {name}: "
        with pytest.raises(SensorConfigError, match=wrong):
            build_sensors([table], folder=tmp_path)


def test_what_a_device_says_of_itself_later_spoils_its_own_link_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    site = CountedSite()
    sensors = SensorResources(site, Sampler(lambda *_: None), "gw-a", Place("campus", "north"))
    probe, child = Probe("probe"), Own()
    probe.children.add("child", child)
    for sensor in (probe, Switch("pump")):
        sensors.add(sensor)
    probe.resource_type = 5  # type: ignore[assignment]  # as a developer may do by mistake
    probe.attributes = {"position": "two\nlines"}
    child.content_formats = 7  # type: ignore[assignment]  # likewise
    sensors.move(Place("campus", "south"))
    links = {link.href: str(link) for link in sensors.links()}
    assert set(links) == {"/sensors/probe", "/sensors/pump", "/sensors/probe/child"}
    assert 'group="south"' in links["/sensors/pump"]
    assert links["/sensors/probe/child"] == "</sensors/probe/child>"
    assert "/sensors/pump" in str(site.get_resources_as_linkheader())
    assert {record.levelname for record in caplog.records} == {"ERROR"}
    assert "probe: resource_type: " in caplog.text
    assert "probe/child: content_formats: " in caplog.text


def test_a_child_has_the_type_and_attributes_of_its_class_unless_others_are_given() -> None:
    class Move(ChildResource):
        resource_type = "move"
        attributes = MappingProxyType({"position": "roof"})

    given = Move(resource_type="job", attributes={"bed": "1"})
    assert (given.resource_type, given.attributes) == ("job", {"bed": "1"})
    assert (Move().resource_type, Move().attributes) == ("move", {"position": "roof"})
    assert Move(attributes={}).attributes == {}
    with pytest.raises(ValueError, match="rt"):
        Move(attributes={"rt": "x"})


def test_each_limit_of_a_child_is_exact() -> None:
    children = ChildResources()
    children.add("a" * 36 + "/" + "b" * 63, Own(content_formats=(0, 65_535), body_bytes_max=0))
    for name, child, named in (
        ("a" * 37 + "/" + "b" * 63, Own(), "child: a name longer than 100"),
        ("b", Own(content_formats=(65_536,)), r"content_formats: \(65536,\) is no tuple"),
        ("b", Own(content_formats=(-1,)), r"content_formats: \(-1,\) is no tuple"),
        ("b", Own(body_bytes_max=-1), "body_bytes_max: -1 is no number of bytes"),
    ):
        with pytest.raises(ValueError, match=f"^{named}"):
            children.add(name, child)
    assert len(children) == 1


def test_who_serves_children_is_told_when_one_comes_or_goes_and_of_nothing_else() -> None:
    children, told = ChildResources(), list[int]()
    child = Own()
    children.add("before", child)
    children.follow(lambda: told.append(len(children)))
    children.add("a", Own())
    children.remove("none")
    children.remove("before")
    assert told == [2, 1]
    assert (children.get("before"), [name for name, _ in children.items()]) == (None, ["a"])
    children.follow(None)
    children.remove("a")
    assert told == [2, 1]


def test_a_table_says_more_of_all_sensors_that_its_driver_makes() -> None:
    more = {"resource_type": "outdoor", "attributes": {"bed": "1"}, "resolution": 0.5}
    built = build_sensors([{"type": "host", **more}])
    assert len(built) > 1
    for one in built:
        sensor = one.sensor
        told = (sensor.resource_type, dict(sensor.attributes), sensor.resolution)
        assert told == ("outdoor", {"bed": "1"}, 0.5)
    (plain,) = build_sensors([{"type": "switch", "name": "pump"}])
    assert (plain.sensor.resource_type, plain.sensor.resolution) == ("switch", 0.0)
    for resolution in (0, -1):
        with pytest.raises(SensorConfigError, match=r"resolution: -?[01] is not greater than 0"):
            build_sensors([{"type": "switch", "name": "pump", "resolution": resolution}])


def test_a_method_is_handled_by_what_can_be_called_under_its_name() -> None:
    child = Own(handle_post=lambda call: "posted", handle_put=None)
    call: Any = object()
    told = {
        method: None if (handler := child.handler_of(method)) is None else handler(call)
        for method in (*HANDLERS, "TRACE", "")
    }
    assert told == {**dict.fromkeys([*HANDLERS, "TRACE", ""]), "GET": "own", "POST": "posted"}
