"""The demo's drawings: well-formed whatever the data, inside their frame, and said in words too."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.tools.demo.drawing import lanes, latency, network, rates, readings
from gateway.tools.demo.drawing.chart import Scene
from gateway.tools.demo.drawing.lanes import Stretch
from gateway.tools.demo.drawing.markup import drawing, element, label, written
from gateway.tools.demo.drawing.readings import Curve
from gateway.tools.demo.drawing.scales import LogScale, Scale
from gateway.tools.demo.network import DemoLink, DemoNetwork, DemoNode

SCENE = Scene(20.0, "gw-root", 8.0, 11.0)
STYLES = {"gw-root": "g0", "gw-north": "g1"}
WIDTH = 340.0
EVIL = '<script>alert("&")</script>\x00\ud800'


def curve(*points: tuple[float, float], sensor: str = "light") -> Curve:
    return Curve(sensor, "gw-root", "lx", points, "g0")


def all_drawings(
    name: str = "gw", points: tuple[tuple[float, float], ...] = ()
) -> Iterator[Element]:
    """Each kind of drawing, with a name and with data for all of them."""
    scene = Scene(20.0, name, 8.0, 11.0)
    told = {name: [(at_s, name) for at_s, _ in points]}
    nodes = tuple(DemoNode(name + str(at), "gateway", name) for at in range(len(points)))
    links = tuple(DemoLink(one.id, other.id, False) for one in nodes for other in nodes)
    yield lanes.draw("lanes", told, {name: "g0"}, scene, WIDTH)
    yield readings.draw("readings", curve(*points, sensor=name), scene, WIDTH)
    yield rates.draw("rates", {name: [at for at, _ in points]}, {name: "g0"}, scene, WIDTH)
    yield latency.draw("latency", points, scene, WIDTH)
    yield network.draw("network", name, DemoNetwork(nodes, links))


def coordinates(drawn: Element) -> Iterator[tuple[float, float]]:
    """Every place that lines, boxes and paths reach."""
    for each in drawn.iter():
        at = {name: float(value) for name, value in each.items() if _is_number(value)}
        if each.tag == "rect":
            yield at["x"], at["y"]
            yield at["x"] + at["width"], at["y"] + at["height"]
        elif each.tag == "line":
            yield at["x1"], at["y1"]
            yield at["x2"], at["y2"]
        elif each.tag == "path":
            found = re.findall(r"[ML](-?[\d.]+) (-?[\d.]+)", each.get("d", ""))
            yield from ((float(x), float(y)) for x, y in found)


def _is_number(text: str) -> bool:
    return re.fullmatch(r"-?\d+(\.\d+)?", text) is not None


# -- whatever the data -----------------------------------------------------------------------------

times = st.floats(-5, 40)
values = st.floats(-1e6, 1e6)


@given(st.lists(st.tuples(times, values), max_size=12).map(sorted))
def test_nothing_is_drawn_outside_the_frame_whatever_the_values(
    points: list[tuple[float, float]],
) -> None:
    for drawn in all_drawings(points=tuple(points)):
        _, _, width, height = map(float, drawn.attrib["viewBox"].split())
        for x, y in coordinates(drawn):
            assert 0 <= x <= width + 0.1
            assert 0 <= y <= height + 0.1


@pytest.mark.parametrize("points", [(), ((3.0, 5.0),)], ids=["no data", "one point"])
def test_no_data_and_one_point_are_drawn_and_told(points: tuple[tuple[float, float], ...]) -> None:
    for drawn in all_drawings(points=points):
        parsed = ElementTree.fromstring(written(drawn))
        assert parsed.findtext("title")
        assert "nan" not in written(drawn)


@pytest.mark.parametrize(
    ("points", "shown"),
    [
        ((), ["0", "0.5", "1"]),
        (((3.0, 5.0),), ["4", "4.5", "5", "5.5", "6"]),
        (((3.0, 1.0), (4.0, 9.0)), ["0", "5"]),
    ],
    ids=["no data", "one point", "values near zero"],
)
def test_the_axis_of_readings_spans_them_and_from_0_where_that_is_near(
    points: tuple[tuple[float, float], ...], shown: list[str]
) -> None:
    drawn = readings.draw("r", curve(*points), SCENE, WIDTH)
    _, *ticks = [each.text for each in drawn.iter("text") if each.get("text-anchor") == "end"]
    assert ticks == shown


def test_names_are_escaped_and_what_xml_cannot_hold_is_replaced() -> None:
    for drawn in all_drawings(EVIL, ((1.0, 2.0), (2.0, 3.0))):
        text = written(drawn)
        assert "<script" not in text
        parsed = ElementTree.fromstring(text)
        assert "script" not in {each.tag for each in parsed.iter()}
        assert '<script>alert("&")</script>\ufffd\ufffd' in "".join(parsed.itertext())


def test_each_drawing_has_a_role_a_name_and_a_text_that_it_points_to() -> None:
    for drawn in all_drawings(points=((1.0, 2.0),)):
        assert drawn.get("role") == "img"
        ids = {each.get("id"): each for each in drawn.iter() if each.get("id")}
        title, text = drawn.attrib["aria-labelledby"].split()
        assert (ids[title].tag, ids[text].tag) == ("title", "desc")
        assert ids[text].text


def test_values_that_are_not_finite_are_left_out() -> None:
    drawn = readings.draw("r", curve((1, math.nan), (2, 3.0), (2.1, math.inf)), SCENE, WIDTH)
    assert "1 readings from 3 to 3 lx" in drawn.findtext("desc", "")
    assert "nan" not in written(drawn)


def test_text_between_elements_keeps_its_place() -> None:
    made = element("text", "a", element("b", "c"), "d", x=1.25, font_size="2")
    assert written(made) == '<text x="1.2" font-size="2">a<b>c</b>d</text>'


def test_a_label_without_a_class_has_none() -> None:
    assert written(label("a", 0, -0.01)) == '<text x="0" y="0" text-anchor="start">a</text>'


def test_a_drawing_refers_to_nothing_outside() -> None:
    assert "http" not in written(drawing("n", "t", "d", 1, 1))


# -- scales ----------------------------------------------------------------------------------------


def test_a_scale_maps_its_ends_and_holds_what_is_beyond_them() -> None:
    scale = Scale(0, 10, 100, 200)
    assert [scale(value) for value in (-1, 0, 5, 10, 11)] == [100, 100, 150, 200, 200]
    assert Scale(0, 10, 200, 100)(2) == 180


def test_a_scale_without_extent_draws_all_in_the_middle() -> None:
    assert Scale(5, 5, 0, 10)(7) == 5
    assert Scale(5, 5, 0, 10).ticks(4) == [5]


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0, 10, [0, 5, 10]),
        (0, 19, [0, 5, 10, 15]),
        (0, 1012, [0, 500, 1000]),
        (-3, 3, [-2, 0, 2]),
        (0, 0.3, [0, 0.1, 0.2, 0.3]),
    ],
)
def test_ticks_are_round(low: float, high: float, ticks: list[float]) -> None:
    assert Scale(low, high, 0, 1).ticks(4) == ticks


def test_a_logarithmic_scale_reaches_the_powers_of_ten_around_its_values() -> None:
    scale = LogScale.of([0.7, 30, 0, math.inf], 100, 0)
    assert scale.ticks() == pytest.approx([0.1, 1, 10, 100])
    assert scale(1) == pytest.approx(100 * 2 / 3)
    assert (scale(0), scale(1e9)) == (100, 0)


def test_a_logarithmic_scale_of_one_power_of_ten_has_an_extent() -> None:
    assert LogScale.of([1.0], 0, 1).ticks() == [1, 10]
    assert LogScale.of([], 0, 1).ticks() == [1, 10]


# -- lanes -----------------------------------------------------------------------------------------


def test_a_lane_is_cut_where_an_answer_differs_and_where_none_came() -> None:
    answers = [(0.0, "r"), (1.0, "r"), (2.0, None), (3.0, None), (4.0, "a")]
    assert list(lanes.stretches(answers, 5.0)) == [
        Stretch(0, 2, "r"),
        Stretch(2, 4, None),
        Stretch(4, 5, "a"),
    ]


def test_the_first_answer_holds_from_the_start() -> None:
    assert list(lanes.stretches([(0.5, "r")], 2.0)) == [Stretch(0, 2, "r")]
    assert list(lanes.stretches([], 2.0)) == [Stretch(0, 2, None)]


def test_the_lanes_are_told_in_words() -> None:
    told = {"gw-root": [(0.0, "gw-root"), (8.0, None)]}
    text = lanes.draw("l", told, {"gw-root": "g0"}, SCENE, WIDTH).findtext("desc", "")
    assert "gw-root said: gw-root until 8.0 s, no answer until 20.0 s." in text


# -- readings --------------------------------------------------------------------------------------


def test_a_line_is_broken_over_a_silence_and_the_silence_is_told() -> None:
    drawn = readings.draw("r", curve((1, 1), (1.4, 2), (9, 3), (9.1, 4)), SCENE, WIDTH)
    lines = [each for each in drawn.iter("path") if "curve" in each.get("class", "")]
    assert len(lines) == 2
    assert "None between 1.4 and 9.0 s." in drawn.findtext("desc", "")


def test_the_moment_of_the_kill_and_of_the_return_are_marked() -> None:
    drawn = readings.draw("r", curve((1, 1)), SCENE, WIDTH)
    (kill,) = (each for each in drawn.iter("line") if each.get("class") == "kill")
    assert float(kill.attrib["x1"]) == pytest.approx(44 + 8 / 20 * (WIDTH - 54), abs=0.1)
    assert "gw-root killed" in [each.text for each in drawn.iter("text")]
    assert "gw-root is killed at 8.0 s, and is back at 11.0 s." in drawn.findtext("desc", "")


def test_a_gateway_that_never_came_back_is_away_to_the_end() -> None:
    drawn = readings.draw("r", curve(), Scene(20.0, "gw", 8.0, None), WIDTH)
    (away,) = (each for each in drawn.iter("rect") if each.get("class") == "away")
    assert float(away.attrib["x"]) + float(away.attrib["width"]) == pytest.approx(WIDTH - 10)
    assert "root again" not in [each.text for each in drawn.iter("text")]


# -- rates and latency -----------------------------------------------------------------------------


def test_messages_are_counted_in_the_interval_in_which_they_came() -> None:
    assert rates.per_second([-0.1, 0, 0.49, 0.5, 1.2, 1.5], 1.5) == [4.0, 2.0, 2.0]
    assert rates.per_second([], 0) == [0.0]


def test_bars_stand_on_each_other_in_the_order_of_the_gateways() -> None:
    drawn = rates.draw("r", {"gw-north": [0.1], "gw-root": [0.1, 0.2]}, STYLES, SCENE, WIDTH)
    low, high = (each for each in drawn.iter("rect") if "bar" in each.get("class", ""))
    assert (low.get("class"), high.get("class")) == ("bar g0", "bar g1")
    top_of_low = float(low.attrib["y"])
    assert float(high.attrib["y"]) + float(high.attrib["height"]) == pytest.approx(
        top_of_low, abs=0.2
    )
    assert float(low.attrib["height"]) == pytest.approx(2 * float(high.attrib["height"]), abs=0.2)


def test_the_mean_rates_around_the_kill_are_told() -> None:
    times = [at / 10 for at in range(80)] + [11 + at / 5 for at in range(45)]
    text = rates.draw("r", {"gw-root": times}, STYLES, SCENE, WIDTH).findtext("desc", "")
    assert (
        "Messages a second from gw-root: 10 before the kill, 0 while gw-root was away, "
        "5 after its return." in text
    )


def test_percentiles_are_of_each_second() -> None:
    took = [(0.1, 5.0), (0.9, 1.0), (0.5, 3.0), (2.0, 8.0)]
    assert list(latency.over_time(took, 50)) == [(0, 3.0), (2, 8.0)]
    assert list(latency.over_time(took, 99)) == [(0, 5.0), (2, 8.0)]
    assert "the slowest 8.0 ms" in latency.in_words(took, SCENE)


# -- the tree --------------------------------------------------------------------------------------


def test_a_gateway_keeps_its_place_whatever_becomes_of_it() -> None:
    ids = ("gw-root", "gw-north", "gw-south")
    before = [DemoNode(who, "gateway") for who in ids]
    during = [DemoNode(who, "silent") for who in ids]
    leaf = DemoNode("collector", "collector")
    places = network.places([*before, leaf])
    assert places == network.places([*during, leaf])
    assert places["gw-root"][1] < places["collector"][1] < places["gw-north"][1]
    assert places["gw-north"][0] < places["collector"][0] < places["gw-south"][0]


def test_the_tree_says_who_is_root_and_what_each_link_does() -> None:
    nodes = (DemoNode("a", "root"), DemoNode("b", "gateway"), DemoNode("c", "silent"))
    drawn = network.draw("t", "now", DemoNetwork(nodes, (DemoLink("a", "b", True),)))
    assert drawn.findtext("desc") == (
        "The root is a. Messages go between a and b. No answer from c."
    )
    assert [each.get("class") for each in drawn.iter("g")] == [
        "node root",
        "node gateway",
        "node silent",
    ]


def test_a_long_name_is_cut_in_the_drawing_and_whole_in_its_text() -> None:
    name = "gateway-in-the-far-north"
    drawn = network.draw("t", "now", DemoNetwork((DemoNode(name, "root"),), ()))
    assert "gateway-in-t…" in [each.text for each in drawn.iter("text")]
    assert name in drawn.findtext("desc", "")


def test_a_link_is_drawn_from_the_middle_of_one_gateway_to_that_of_the_other() -> None:
    nodes = tuple(DemoNode(name, "gateway") for name in "abc")
    at = network.places(nodes)
    drawn = network.draw("t", "now", DemoNetwork(nodes, (DemoLink("a", "c", carries=True),)))
    (line,) = drawn.iter("line")
    ends = [float(line.attrib[name]) for name in ("x1", "y1", "x2", "y2")]
    assert ends == pytest.approx([*at["a"], *at["c"]], abs=0.1)
