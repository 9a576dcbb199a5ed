"""The frames of `hedgerow top` for a gateway, at the sizes of terminals that people have.

`PYTHONPATH=tests:. python tests/unit/gateway/tools/top/test_top_frames.py` writes the frames anew,
and the picture of the documents, to be looked at.
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import told_gateways
from drawn_frame import svg
from hypothesis import given
from hypothesis import strategies as st

from gateway.tools.top import top_json
from gateway.tools.top.cells import width_of
from gateway.tools.top.fleet_panel import fleet_meters
from gateway.tools.top.fleet_sample import FleetAnswers, FleetHistory
from gateway.tools.top.frame import COLUMN_COUNTS, FrameSize, FrameTime, drawn
from gateway.tools.top.gateway_document import ITEMS_MAX, GatewayDocument
from gateway.tools.top.history import GatewayHistory
from gateway.tools.top.live import take
from gateway.tools.top.sample import GatewayAnswers
from gateway.tools.top.styled_text import Style, TopFrame
from gateway.tools.top.top_view import FILTER_MAX, FLEET, OF_FLEET, OF_GATEWAY, TopView

FRAMES = Path(__file__).with_name("frames")
PICTURE = Path(__file__).parents[5] / "docs" / "pictures" / "top.svg"
SIZES = (FrameSize(80, 24), FrameSize(120, 40), FrameSize(40, 12))
AT = FrameTime(10.0, told_gateways.NOW_S + 10)


def looked(*told: GatewayAnswers) -> GatewayHistory:
    history = GatewayHistory()
    for one in told or (told_gateways.answers(1), told_gateways.answers(2)):
        take(history, one)
    return history


def fleet() -> FleetHistory:
    history = FleetHistory()
    for at in (1, 2):
        root = told_gateways.status(at, id="gw-root", parent=None, domain="", group="")
        north = told_gateways.status(at)
        below = told_gateways.status(at, id="gw-barn", parent="gw-north", alerts=None)
        gateways = {"gw-root": root, "gw-north": north, "gw-barn": below}
        silent = {"gw-south": "5.04 gw-south did not answer within 5 s"}
        times = 2.0 * at, told_gateways.NOW_S + 2.0 * at
        history.take(FleetAnswers(*times, gateways, silent))
    return history


def shown(name: str, size: FrameSize) -> TopFrame:
    if name == FLEET:
        return drawn(fleet(), TopView(OF_FLEET, FLEET), size, AT)
    return drawn(looked(), TopView(panel=name), size, AT)


def pictured() -> str:
    """A minute of work at a gateway, as docs/top.md shows it."""
    history = GatewayHistory()
    names = ("meter-17", "meter-18", "panel-hall", "gate", "pump")
    for at in range(1, 31):
        told = told_gateways.answers(at)
        messages = told.status["broker"]["messages"]
        messages["received"] += round(240 * math.sin(at / 3))
        messages["sent"] += round(1_800 * math.sin(at / 3) + 300 * math.sin(at))
        clients = [told_gateways.client(one, 9 * at // n) for n, one in enumerate(names, 1)]
        take(history, replace(told, clients={"clients": clients}))
    at = FrameTime(60.0, told_gateways.NOW_S + 60)
    return svg(drawn(history, TopView(), FrameSize(104, 32), at), "hedgerow top")


def widest(frame: TopFrame) -> int:
    return max(sum(width_of(text) for text, _ in line) for line in frame.lines)


def test_figures_stand_in_one_line_where_they_just_fit() -> None:
    [line] = [one for one in shown("all", FrameSize(200, 24)).lines if one[0][0] == "alerts "]
    width = sum(width_of(text) for text, _ in line)
    assert line in shown("all", FrameSize(width, 24)).lines
    assert line not in shown("all", FrameSize(width - 1, 24)).lines


@pytest.mark.parametrize("size", SIZES, ids=lambda one: f"{one.cells}x{one.rows}")
@pytest.mark.parametrize("name", [*OF_GATEWAY, FLEET])
def test_each_panel_looks_as_it_is_written_down(name: str, size: FrameSize) -> None:
    frame = shown(name, size)
    assert len(frame.lines) == size.rows
    assert widest(frame) <= size.cells
    assert frame.as_text() + "\n" == (FRAMES / _file(name, size)).read_text()


def test_the_picture_of_the_documents_is_what_is_shown() -> None:
    assert PICTURE.read_text() == pictured()


def test_a_gateway_that_does_not_answer_is_said_so_above_what_it_told_last() -> None:
    history = looked()
    history.missed("coap://gw: no answer within 5 s", 5.0)
    text = drawn(history, TopView(), SIZES[0], AT).as_text()
    assert "no answer for 5 s: coap://gw: no answer within 5 s" in text
    assert "meter-17" in text
    assert "msg/s in -" in text


def test_a_gateway_that_has_started_meanwhile_has_no_rates_until_it_is_asked_again() -> None:
    anew = told_gateways.answers(3, status=told_gateways.status(0, boot_epoch=8))
    history = looked(told_gateways.answers(1), told_gateways.answers(2), anew)
    text = drawn(history, TopView(), SIZES[1], AT).as_text()
    assert "msg/s in -" in text
    assert "started while you look 1" in text
    later = told_gateways.answers(4, status=told_gateways.status(1, boot_epoch=8))
    take(history, later)
    assert "msg/s in 125" in drawn(history, TopView(), SIZES[1], AT).as_text()


def test_a_stranger_is_told_how_to_see_the_rest() -> None:
    told = GatewayAnswers(
        at_s=1.0,
        time_s=told_gateways.NOW_S,
        status={"id": "gw-north", "version": "0.2.0", "up_s": 5},
        trouble={"clients": "not told without a key (--psk-file)"},
    )
    text = drawn(looked(told), TopView(), SIZES[0], AT).as_text()
    assert "gw-north  up 5 s, hedgerow 0.2.0" in text
    assert "those with --psk-file" in text
    assert "not told without a key (--psk-file)" in text


def test_nothing_that_a_terminal_obeys_gets_into_a_frame() -> None:
    evil = "\x1b[2J\r\n\t\x00\x9b\u202e\u200d" * 50
    told = told_gateways.answers(
        1,
        status=told_gateways.status(id=evil, parent=evil, last_change={"why": evil}),
        clients={"clients": [told_gateways.client(evil, 1, user=evil)]},
        alerts={"alerts": [told_gateways.alert(evil, evil, evil)]},
        log=(evil,),
        trouble={"sensors": evil},
        sensors=None,
    )
    for size in SIZES:
        for panel in OF_GATEWAY:
            frame = drawn(looked(told), TopView(panel=panel), size, AT)
            assert widest(frame) <= size.cells
            assert all(text.isprintable() for line in frame.lines for text, _ in line)


def test_wide_characters_take_their_two_cells_and_marks_none() -> None:
    names = ["温" * 100, "e" + "\u0301" * 5_000, "🌳" * 60]
    told = told_gateways.answers(
        1, clients={"clients": [told_gateways.client(name, 1) for name in names]}
    )
    for size in SIZES:
        frame = drawn(looked(told), TopView(panel="clients"), size, AT)
        assert widest(frame) <= size.cells
        assert sum(len(text) for line in frame.lines for text, _ in line) <= size.cells * size.rows
    assert "温" in frame.as_text()


def test_a_filter_leaves_the_rows_that_have_the_text() -> None:
    view = TopView(panel="clients", text="PUMP")
    text = drawn(looked(), view, SIZES[0], AT).as_text()
    assert "pump" in text
    assert "meter-17" not in text
    none = drawn(looked(), replace(view, text="nobody"), SIZES[0], AT).as_text()
    assert "no row has 'nobody'" in none


def test_rows_are_sorted_by_a_column_numbers_from_the_greatest_down() -> None:
    def order(view: TopView) -> list[str]:
        text = drawn(looked(), view, SIZES[0], AT).as_text()
        names = ("meter-17", "厨房温度", "pump")
        return sorted(names, key=text.index)

    assert order(TopView(panel="clients", sorting={"clients": 1})) == [
        "meter-17",
        "厨房温度",
        "pump",
    ]
    assert order(TopView(panel="clients", sorting={"clients": 5}))[0] == "pump"
    upwards = TopView(panel="clients", sorting={"clients": 1}, is_inverted=True)
    assert order(upwards) == ["pump", "厨房温度", "meter-17"]


def test_what_is_wrong_is_not_told_by_colour_alone() -> None:
    history = looked(
        told_gateways.answers(
            1,
            status=told_gateways.status(
                disk={"failure": "No space left on device", "free_bytes": 0},
                failing={"sampler": "x"},
            ),
        )
    )
    frame = drawn(history, TopView(), SIZES[0], AT)
    wrong = ["".join(text for text, style in line if style == Style.WRONG) for line in frame.lines]
    assert "disk: No space left on device: messages are refused" in wrong
    assert "failed: sampler" in wrong


def test_a_list_is_scrolled_to_its_end_and_no_further() -> None:
    many = {"clients": [told_gateways.client(f"c{number:04}", 1) for number in range(2_000)]}
    view = TopView(panel="clients", first_row=1 << 30)
    frame = drawn(looked(told_gateways.answers(1, clients=many)), view, SIZES[0], AT)
    assert "c1999" in frame.as_text().splitlines()[-2]


json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)
WORDS = st.sampled_from(list(told_gateways.status()) + list(told_gateways.status()["broker"]))


@given(
    st.dictionaries(WORDS, json, max_size=6),
    st.dictionaries(WORDS, json, max_size=6),
    json,
    json,
    st.lists(st.text(max_size=200), max_size=5),
    st.integers(0, 130),
    st.integers(0, 50),
)
def test_whatever_a_gateway_tells_there_is_a_frame_of_the_terminals_size(
    odd: dict[str, Any],
    other: dict[str, Any],
    listed: Any,
    more: Any,
    log: list[str],
    cells: int,
    rows: int,
) -> None:
    history = GatewayHistory()
    for at, changed in enumerate((odd, other), 1):
        told = told_gateways.answers(
            at,
            status=told_gateways.status(at) | changed,
            clients={"clients": [listed, told_gateways.client("c", 1) | {"id": more}]},
            sensors={"sensors": [told_gateways.sensor("s", "1", "", "good") | {"last": listed}]},
            alerts=more if at == 1 else {"alerts": listed},
            log=log,
        )
        take(history, told)
    size = FrameSize(cells, rows)
    for panel in OF_GATEWAY:
        frame = drawn(history, TopView(panel=panel), size, AT)
        assert len(frame.lines) == rows
        assert rows == 0 or widest(frame) <= cells
        assert all(text.isprintable() for line in frame.lines for text, _ in line)


@given(json)
def test_a_status_that_is_none_is_no_answer(status: Any) -> None:
    history = GatewayHistory()
    take(history, told_gateways.answers(1, status=status))
    if not isinstance(status, dict) or not isinstance(status.get("id"), str) or not status["id"]:
        assert history.failure == "it told nothing that can be read"
    FleetHistory().take(FleetAnswers(1.0, 2.0, {"gw": status}, {}))


def test_an_answer_that_is_later_than_its_successor_changes_nothing() -> None:
    history = looked()
    take(history, told_gateways.answers(1))
    assert history.last is not None
    assert history.last.at_s == 4.0


@given(
    st.lists(
        st.sampled_from(
            [
                *(
                    "f1",
                    "f4",
                    "f5",
                    "f6",
                    "f7",
                    "f8",
                    "tab",
                    "shift-tab",
                    "enter",
                    "escape",
                    "backspace",
                ),
                *("up", "down", "page-up", "page-down", "home", "end", "left", "right", "space"),
                *(
                    "1",
                    "6",
                    "9",
                    "x",
                    "ü",
                    "温",
                    "<",
                    ">",
                    "+",
                    "-",
                    "h",
                    "?",
                    "/",
                    "\\",
                    "i",
                    "p",
                    "s",
                ),
            ]
        ),
        max_size=40,
    )
)
def test_whatever_keys_are_pressed_there_is_a_frame(keys: list[str]) -> None:
    view = TopView()
    history = looked()
    for key in keys:
        view = view.pressed(key, COLUMN_COUNTS)
        assert not view.has_ended
        frame = drawn(history, view, SIZES[0], AT)
        assert widest(frame) <= SIZES[0].cells
    assert view.pressed("ctrl-c", COLUMN_COUNTS).has_ended


def test_a_circle_of_parents_shows_each_gateway_once() -> None:
    history = FleetHistory()
    gateways = {
        name: told_gateways.status(id=name, parent=parent)
        for name, parent in (("gw-a", "gw-b"), ("gw-b", "gw-a"), ("gw-c", "gw-c"))
    }
    history.take(FleetAnswers(1.0, told_gateways.NOW_S, gateways, {}))
    text = drawn(history, TopView(OF_FLEET, FLEET), SIZES[0], AT).as_text()
    assert [text.count(name) for name in gateways] == [1, 1, 1]


def test_a_gateway_that_is_gone_from_the_fleet_is_gone_from_the_frame() -> None:
    history = fleet()
    history.take(FleetAnswers(9.0, told_gateways.NOW_S, {"gw-root": told_gateways.status(3)}, {}))
    assert list(history.gateways) == ["gw-root"]


def test_while_the_gateway_that_is_asked_does_not_answer_nothing_is_known_of_any() -> None:
    history = fleet()
    for at_s in (11.0, 14.0):
        history.missed(f"no answer at {at_s:g}", at_s)
    assert (history.failure, history.failed_at_s) == ("no answer at 14", 11.0)
    assert {one.failure for one in history.gateways.values()} == {"no answer at 14"}
    [why, count] = ["".join(text for text, _ in line) for line in fleet_meters(history, 16.0, 120)]
    assert why == "no answer for 5 s: no answer at 14"
    assert count.startswith("4 gateways, 4 silent   msg/s in 0 out 0   0 clients")
    told = top_json.of_fleet(history)
    assert told["failure"] == "no answer at 14"
    history.take(FleetAnswers(20.0, told_gateways.NOW_S, {"gw-root": told_gateways.status(3)}, {}))
    assert history.failure == ""
    assert top_json.of_fleet(history)["failure"] is None


def test_json_of_a_fleet_has_of_each_gateway_what_all_are_told() -> None:
    told = top_json.of_fleet(fleet())["gateways"]
    assert told.keys() == fleet().gateways.keys()
    of_one = top_json.of_gateway(fleet().gateways["gw-root"])
    only_of_one = {"clients", "sensors", "log", "trouble", "alerts"}
    assert only_of_one <= of_one.keys()
    assert told["gw-root"] == {
        name: value for name, value in of_one.items() if name not in only_of_one
    }


def test_what_is_typed_to_filter_is_taken_back_letter_by_letter() -> None:
    view = TopView()
    for key in ("/", "a", "space", "b", "backspace"):
        view = view.pressed(key, COLUMN_COUNTS)
    assert (view.text, view.is_typing) == ("a ", True)
    for key in ("backspace", "backspace", "backspace"):
        view = view.pressed(key, COLUMN_COUNTS)
    assert view.text == ""
    for _ in range(FILTER_MAX + 1):
        view = view.pressed("x", COLUMN_COUNTS)
    assert view.text == "x" * FILTER_MAX
    assert view.pressed("enter", COLUMN_COUNTS).text == view.text
    assert view.pressed("escape", COLUMN_COUNTS).text == ""


def test_a_number_beyond_all_floats_and_a_table_without_end_are_not_taken() -> None:
    document = GatewayDocument({"huge": 10**400, "whole": 7, "yes": True})
    assert document.number("huge") is None
    assert document.number("yes") is None
    assert document.number("whole") == 7.0
    many = GatewayDocument({str(number): number for number in range(ITEMS_MAX + 1)})
    assert len(list(many.named())) == ITEMS_MAX


def _file(name: str, size: FrameSize) -> str:
    return f"{name}-{size.cells}x{size.rows}.txt"


if __name__ == "__main__":
    FRAMES.mkdir(exist_ok=True)
    for one in SIZES:
        for panel in (*OF_GATEWAY, FLEET):
            (FRAMES / _file(panel, one)).write_text(shown(panel, one).as_text() + "\n")
    PICTURE.write_text(pictured())
