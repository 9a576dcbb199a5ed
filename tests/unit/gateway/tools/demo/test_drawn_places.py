"""Each line, box and word of the demo's drawings stands where its time and its value are."""

from __future__ import annotations

from xml.etree.ElementTree import Element

import pytest

from gateway.tools.demo.drawing import lanes, latency, network, rates, readings
from gateway.tools.demo.drawing.chart import Plot, Scene
from gateway.tools.demo.drawing.readings import Curve
from gateway.tools.demo.network import DemoLink, DemoNetwork, DemoNode

SCENE = Scene(20.0, "gw-root", 8.0, 11.0)
STYLES = {"gw-root": "g0", "gw-north": "g1"}
WIDTH = 300.0


def parts(drawn: Element, *classes: str) -> list[str]:
    """Return what is drawn, each as its kind, its attributes and its text, in their order.

    With classes: those that have one of them alone.
    """
    return [
        " ".join((each.tag, *each.attrib.values(), *([each.text] if each.text else ())))
        for each in drawn.iter()
        if each.tag in {"rect", "line", "path", "text"}
        and (not classes or {*each.get("class", "").split()} & {*classes})
    ]


def test_a_time_axis_goes_to_the_end_and_both_moments_stand_on_it() -> None:
    plot = Plot(SCENE, WIDTH, 236.0)
    under = Element("g")
    under.extend(plot.under())
    assert parts(under) == [
        "rect 142.4 16 36.9 186 away",
        "text 44 217 middle tick 0",
        "text 105.5 217 middle tick 5",
        "text 167 217 middle tick 10",
        "text 228.5 217 middle tick 15",
        "text 290 217 middle tick 20",
        "text 290 232 end note seconds since the devices began",
    ]
    over = Element("g")
    over.extend(plot.over())
    assert parts(over) == [
        "line 142.4 142.4 16 202 kill",
        "text 142.4 12 start kill-text gw-root killed",
        "line 179.3 179.3 16 202 back",
        "text 179.3 12 start note root again",
    ]


@pytest.mark.parametrize(("killed_s", "side"), [(10.5, "start"), (10.6, "end")])
def test_the_word_of_a_late_kill_stands_before_it(killed_s: float, side: str) -> None:
    # At 174 of the drawing's units, 130 behind the axis, there is room before it.
    plot = Plot(Scene(20.0, "gw", killed_s, None), WIDTH, 100.0)
    _, word = plot.over()
    assert word.get("text-anchor") == side


def test_values_of_an_axis_have_their_lines_and_thousands_a_comma() -> None:
    plot = Plot(SCENE, WIDTH, 236.0)
    axis = Element("g")
    axis.extend(plot.value_axis([0.0, 999.5, 1000.0], plot.y(1000.0), "lx"))
    assert parts(axis) == [
        "line 44 290 202 202 grid",
        "text 38 206 end tick 0",
        "line 44 290 22.1 22.1 grid",
        "text 38 26.1 end tick 999.5",
        "line 44 290 22 22 grid",
        "text 38 26 end tick 1,000",
        "text 0 12 start note lx",
    ]


def test_a_lane_has_its_gateways_name_and_a_bar_for_each_root_that_it_told() -> None:
    told = {
        "gw-root": [(0.0, "gw-root"), (8.0, None), (11.0, "gw-root"), (19.9, "gw-north")],
        "gw-north": [(0.0, "gw-root"), (9.0, "other")],
    }
    drawn = lanes.draw("l", told, STYLES, SCENE, WIDTH)
    assert drawn.get("viewBox") == "0 0 300 116"
    assert parts(drawn, "name", "bar", "on-bar", "silent") == [
        "text 0 41 start name gw-root",
        "rect 76 27 85.6 20 3 bar g0",
        "text 82 41 start on-bar gw-root",
        "line 161.6 193.7 37 37 silent",
        "rect 193.7 27 95.2 20 3 bar g0",
        "text 199.7 41 start on-bar gw-root",
        "rect 288.9 27 1.1 20 3 bar g1",
        "text 0 71 start name gw-north",
        "rect 76 57 96.3 20 3 bar g0",
        "text 82 71 start on-bar gw-root",
        "rect 172.3 57 117.7 20 3 bar",
        "text 178.3 71 start on-bar other",
    ]
    assert drawn.findtext("desc") == (
        "gw-root is killed at 8.0 s, and is back at 11.0 s. gw-root said: gw-root until 8.0 s, no "
        "answer until 11.0 s, gw-root until 19.9 s, gw-north until 20.0 s. gw-north said: gw-root "
        "until 9.0 s, other until 20.0 s."
    )


def test_delays_are_dots_and_their_percentiles_steps_of_a_second() -> None:
    took = [(0.5, 10.0), (1.5, 1.0), (1.6, 100.0), (5.0, 20.0)]
    drawn = latency.draw("l", took, SCENE, WIDTH)
    assert drawn.get("viewBox") == "0 0 300 236"
    assert parts(drawn, "dots", "curve") == [
        "path M50.1 112h0M62.5 202h0M63.7 22h0M105.5 84.9h0 dots",
        "path M44 112L56.3 112L56.3 202L68.6 202L105.5 84.9L117.8 84.9 curve p50",
        "path M44 112L56.3 112L56.3 22L68.6 22L105.5 84.9L117.8 84.9 curve p99",
    ]
    assert parts(drawn, "tick", "note")[6:10] == [
        "text 38 206 end tick 1",
        "text 38 116 end tick 10",
        "text 38 26 end tick 100",
        "text 0 12 start note ms",
    ]
    assert drawn.findtext("desc") == (
        "4 messages: half of them within 10.0 ms, 99 of 100 within 100.0 ms, the slowest 100.0 ms. "
        "gw-root is killed at 8.0 s, and is back at 11.0 s."
    )


def test_rates_are_bars_of_half_a_second_with_a_gap_between_them() -> None:
    drawn = rates.draw("r", {"gw-north": [0.1], "gw-root": [0.1, 0.2, 19.9]}, STYLES, SCENE, WIDTH)
    assert drawn.get("viewBox") == "0 0 300 204"
    assert parts(drawn, "bar") == [
        "rect 44 71.3 5.1 98.7 bar g0",
        "rect 44 22 5.1 49.3 bar g1",
        "rect 283.9 120.7 5.1 49.3 bar g0",
    ]
    assert [part.rpartition(" ")[2] for part in parts(drawn, "tick")[5:]] == ["0", "2", "4", "6"]


def test_a_mean_is_of_the_intervals_that_begin_in_its_span() -> None:
    series = [2.0, 4.0, 6.0, 8.0]
    assert rates.mean_rate(series, 0.5, 1.5) == 5.0
    assert rates.mean_rate(series, 0.4, 0.5) == 0.0
    assert rates.mean_rate(series, 9.0, 10.0) == 0.0


def test_readings_are_lines_that_a_silence_of_more_than_half_a_second_breaks() -> None:
    points = [(1.0, 100.0), (1.5, 110.0), (2.1, 120.0), (3.0, 130.0)]
    curve = Curve("light", "gw-root", "lx", points, "g0")
    drawn = readings.draw("r", curve, Scene(10.0, "gw-root", 2.0, None), WIDTH)
    assert (drawn.get("viewBox"), drawn.findtext("title")) == (
        "0 0 300 168",
        "light at gw-root, in lx",
    )
    assert parts(drawn, "curve", "away", "kill", "back") == [
        "rect 93.2 16 196.8 118 away",
        "path M68.6 134L80.9 96.7 curve g0",
        "path M95.7 59.3 curve g0",
        "path M117.8 22 curve g0",
        "line 93.2 93.2 16 134 kill",
    ]
    assert drawn.findtext("desc") == (
        "4 readings from 100 to 130 lx. None between 1.5 and 2.1 s. None between 2.1 and 3.0 s. "
        "gw-root is killed at 2.0 s."
    )


def test_a_tree_has_a_card_for_each_and_links_that_carry_lie_over_those_that_stand_by() -> None:
    nodes = (
        DemoNode("a", "root", "root · 3"),
        DemoNode("b", "gateway", "2"),
        DemoNode("c", "silent", "no answer"),
        DemoNode("col", "collector"),
    )
    ends = {("a", "b"): True, ("a", "c"): False, ("a", "gone"): True, ("a", "col"): True}
    links = tuple(DemoLink(one, other, does) for (one, other), does in ends.items())
    drawn = network.draw("t", "now", DemoNetwork(nodes, links))
    assert drawn.get("viewBox") == "0 0 270 225"
    assert parts(drawn) == [
        "line 135 24 218 201 link reserve",
        "line 135 24 52 201 link carries",
        "line 135 24 135 133.7 link carries",
        "rect 85 2 100 44 10",
        "text 135 21 middle node-name a",
        "text 135 38 middle node-note root · 3",
        "rect 2 179 100 44 10",
        "text 52 198 middle node-name b",
        "text 52 215 middle node-note 2",
        "rect 168 179 100 44 10",
        "text 218 198 middle node-name c",
        "text 218 215 middle node-note no answer",
        "rect 93 119.7 84 28 8",
        "text 135 137.7 middle node-name col",
    ]
    assert [each.text for each in drawn.iter("title")] == ["now", "a", "b", "c", "col"]


def test_collectors_share_the_middle_and_one_gateway_alone_is_on_top() -> None:
    nodes = [DemoNode(name, "gateway") for name in "ab"]
    nodes += [DemoNode(name, "collector") for name in "lm"]
    at = network.places(nodes)
    assert at["a"] == pytest.approx((135.0, 24.0))
    assert at["b"] == pytest.approx((135.0, 201.0))
    assert at["l"] == pytest.approx((2 + 50 + 166 / 3, 133.74))
    assert at["m"] == pytest.approx((2 + 50 + 332 / 3, 133.74))
    assert network.places([DemoNode("a", "root")]) == {"a": (135.0, 24.0)}


@pytest.mark.parametrize(("name", "shown"), [("n" * 13, "n" * 13), ("n" * 14, "n" * 12 + "…")])
def test_a_name_of_more_than_13_letters_is_cut(name: str, shown: str) -> None:
    drawn = network.draw("t", "now", DemoNetwork((DemoNode(name, "root"),), ()))
    assert next(each.text for each in drawn.iter("text")) == shown


@pytest.mark.parametrize(("killed_s", "side"), [(10.4, "start"), (10.5, "end")])
def test_just_130_behind_the_axis_there_is_no_room_before_a_kill(
    killed_s: float, side: str
) -> None:
    _, word = Plot(Scene(20.0, "gw", killed_s, None), 304.0, 100.0).over()
    assert (word.get("x"), word.get("text-anchor")) == (
        ("174", side) if side == "start" else ("175.2", side)
    )
