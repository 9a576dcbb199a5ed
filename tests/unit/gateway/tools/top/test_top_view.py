"""A key of `hedgerow top` changes one thing of the view, and rows that are shown begin anew."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gateway.tools.top.top_view import FILTER_MAX, FLEET, INTERVALS_S, OF_FLEET, TopView

COLUMNS = {"clients": 3, "tree": 2}
DOWN = TopView(first_row=7)


@pytest.mark.parametrize(
    ("key", "changed"),
    [
        *((key, {"has_ended": True}) for key in ("f10", "q", "Q", "ctrl-c")),
        *((key, {"is_typing": True, "first_row": 0}) for key in ("f4", "/", "\\")),
        ("escape", {"first_row": 0}),
        *((key, {"has_help": True}) for key in ("f1", "h", "?")),
        *((key, {"is_inverted": True}) for key in ("f7", "i", "I")),
        *((key, {"is_paused": True}) for key in ("f8", "p", "space")),
        *((key, {"panel": "tree", "first_row": 0}) for key in ("f5", "tab", "right", "2")),
        *((key, {"panel": "log", "first_row": 0}) for key in ("shift-tab", "left", "6")),
        ("1", {"first_row": 0}),
        *((key, {}) for key in ("7", "0", "x", "f12")),
        *((key, {"sorting": {"clients": 0}, "first_row": 0}) for key in ("f6", "s", ">")),
        *((key, {"sorting": {"clients": 2}, "first_row": 0}) for key in ("<", "S")),
        ("+", {"interval_s": 5.0}),
        ("-", {"interval_s": 1.0}),
        ("up", {"first_row": 6}),
        ("k", {"first_row": 6}),
        ("down", {"first_row": 8}),
        ("j", {"first_row": 8}),
        ("page-up", {"first_row": 0}),
        ("page-down", {"first_row": 17}),
        ("home", {"first_row": 0}),
        ("end", {"first_row": 7 + (1 << 30)}),
    ],
)
def test_a_key_changes_what_it_stands_for(key: str, changed: dict[str, Any]) -> None:
    assert DOWN.pressed(key, COLUMNS) == replace(DOWN, **changed)


@pytest.mark.parametrize(
    ("key", "changed"),
    [
        ("a", {"text": "xya", "first_row": 0}),
        ("space", {"text": "xy ", "first_row": 0}),
        ("q", {"text": "xyq", "first_row": 0}),
        ("backspace", {"text": "x"}),
        ("enter", {"is_typing": False}),
        ("escape", {"is_typing": False, "text": ""}),
        ("ctrl-c", {"has_ended": True}),
        ("up", {}),
        ("\x01", {}),
    ],
)
def test_a_key_goes_into_the_text_while_it_is_typed(key: str, changed: dict[str, Any]) -> None:
    typing = replace(DOWN, is_typing=True, text="xy")
    assert typing.pressed(key, COLUMNS) == replace(typing, **changed)


def test_a_text_has_an_end() -> None:
    typing = TopView(is_typing=True, text="x" * (FILTER_MAX - 1)).pressed("y", COLUMNS)
    assert typing.text == "x" * (FILTER_MAX - 1) + "y"
    assert typing.pressed("z", COLUMNS) == typing


def test_any_key_ends_the_help_and_one_that_ends_the_display_ends_it_at_once() -> None:
    helped = replace(DOWN, has_help=True, text="t")
    for key in ("x", "escape", "h", "2", "down"):
        assert helped.pressed(key, COLUMNS) == replace(helped, has_help=False)
    assert helped.pressed("q", COLUMNS).has_ended


def test_columns_go_round_from_none_to_the_last_and_each_panel_has_its_own() -> None:
    view, seen = TopView(panel="tree"), list[int | None]()
    for _ in range(4):
        seen.append(view.sorted_by("tree"))
        view = view.pressed("s", COLUMNS)
    assert seen == [None, 0, 1, None]
    assert view.sorted_by("clients") is None
    other = replace(view, panel="sensors")
    assert other.pressed("s", COLUMNS).sorted_by("sensors") is None


def test_the_interval_ends_at_the_shortest_and_the_longest() -> None:
    view, seen = TopView(interval_s=0.7), list[float]()
    for _ in range(len(INTERVALS_S)):
        view = view.pressed("+", COLUMNS)
        seen.append(view.interval_s)
    assert seen == [*INTERVALS_S[1:], INTERVALS_S[-1]]
    for _ in INTERVALS_S:
        view = view.pressed("-", COLUMNS)
    assert view.interval_s == INTERVALS_S[0]


def test_a_fleet_has_one_panel() -> None:
    view = TopView(OF_FLEET, FLEET)
    for key in ("tab", "shift-tab", "1", "2"):
        assert view.pressed(key, COLUMNS).panel == FLEET
