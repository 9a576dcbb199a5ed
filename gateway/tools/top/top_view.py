"""View of `hedgerow top`, and the keys that change it; a key of htop(1) means the same here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any, Final

from light_dataclasses import dataclass

OVERVIEW: Final = "all"
TREE, CLIENTS, SENSORS, ALERTS, LOG = "tree", "clients", "sensors", "alerts", "log"
FLEET: Final = "fleet"
OF_GATEWAY: Final = (OVERVIEW, TREE, CLIENTS, SENSORS, ALERTS, LOG)
"""The panels of one gateway."""
OF_FLEET: Final = (FLEET,)
FILTER_MAX: Final = 64
INTERVALS_S: Final = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
PAGE_ROWS: Final = 10

_SETS: Final[Mapping[str, Mapping[str, Any]]] = {
    **{key: {"has_ended": True} for key in ("f10", "q", "Q", "ctrl-c")},
    **{key: {"is_typing": True, "first_row": 0} for key in ("f4", "/", "\\")},
    "escape": {"text": "", "first_row": 0},
}
"""The view that a key brings, whatever it was."""
_TOGGLES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("f1", "h", "?"), "has_help"),
    **dict.fromkeys(("f7", "i", "I"), "is_inverted"),
    **dict.fromkeys(("f8", "p", "space"), "is_paused"),
}
"""The part of a view that a key switches on and off."""
_PANEL_STEPS: Final[Mapping[str, int]] = {
    **dict.fromkeys(("f5", "tab", "right"), 1),
    **dict.fromkeys(("shift-tab", "left"), -1),
}
_SORT_STEPS: Final[Mapping[str, int]] = {
    **dict.fromkeys(("f6", "s", ">"), 1),
    **dict.fromkeys(("<", "S"), -1),
}
_SCROLLS: Final[Mapping[str, int]] = {
    "up": -1,
    "k": -1,
    "down": 1,
    "j": 1,
    "page-up": -PAGE_ROWS,
    "page-down": PAGE_ROWS,
    "home": -(1 << 30),
    "end": 1 << 30,
}
KEYS: Final = (
    ("F1 h ?", "this help"),
    ("F4 / \\", "show only rows with a text; Esc takes it back"),
    ("F5 Tab 1-6", "another panel"),
    ("F6 s < >", "sort by another column"),
    ("F7 i", "sort the other way round"),
    ("F8 p", "stand still, and go on"),
    ("+ -", "look less often, or more often"),
    ("Up Down PgUp PgDn", "scroll; Home and End"),
    ("F10 q Ctrl-C", "end"),
)
"""The lines of the help."""


@dataclass(frozen=True, slots=True)
class TopView:
    """The view that the user has chosen.

    Attributes:
        panels: those that there are.
        panel: the one that is shown.
        sorting: the column by which each panel is sorted, by the panel's name.
        is_inverted: the other way round.
        text: only rows with it are shown.
        is_typing: keys go into the text.
        is_paused: what is shown stands still.
        has_help: the help is shown instead.
        first_row: how far down the panel is scrolled.
        interval_s: how often a gateway is asked.
        has_ended: the user wants no more.

    """

    panels: tuple[str, ...] = OF_GATEWAY
    panel: str = OVERVIEW
    sorting: Mapping[str, int | None] = field(default_factory=dict)
    is_inverted: bool = False
    text: str = ""
    is_typing: bool = False
    is_paused: bool = False
    has_help: bool = False
    first_row: int = 0
    interval_s: float = 2.0
    has_ended: bool = False

    def pressed(self, key: str, columns: Mapping[str, int]) -> TopView:
        """Return what is looked at after a key; one that means nothing changes nothing.

        Args:
            key: a character, or a name such as ``f4``, ``up`` or ``shift-tab``.
            columns: how many columns each panel has.

        """
        if self.is_typing and key != "ctrl-c":
            return self._typed(key)
        if key in _SETS and not (self.has_help and key == "escape"):
            return replace(self, **_SETS[key])
        if self.has_help:
            return replace(self, has_help=False)
        if key in _TOGGLES:
            name = _TOGGLES[key]
            changed: dict[str, Any] = {name: not getattr(self, name)}
            return replace(self, **changed)
        return self._moved(key, columns)

    def sorted_by(self, panel: str) -> int | None:
        """Return the column by which a panel is sorted, if by any."""
        return self.sorting.get(panel)

    def _typed(self, key: str) -> TopView:
        match key:
            case "enter":
                return replace(self, is_typing=False)
            case "escape":
                return replace(self, is_typing=False, text="")
            case "backspace":
                return replace(self, text=self.text[:-1])
            case "space":
                key = " "
        if len(key) != 1 or not key.isprintable() or len(self.text) >= FILTER_MAX:
            return self
        return replace(self, text=self.text + key, first_row=0)

    def _moved(self, key: str, columns: Mapping[str, int]) -> TopView:
        if (panel := self._panel_of(key)) is not None:
            return replace(self, panel=panel, first_row=0)
        if key in _SORT_STEPS:
            return self._sorted(_SORT_STEPS[key], columns)
        if key in ("+", "-"):
            return replace(self, interval_s=_interval(self.interval_s, key == "+"))
        if key in _SCROLLS:
            return replace(self, first_row=max(0, self.first_row + _SCROLLS[key]))
        return self

    def _panel_of(self, key: str) -> str | None:
        """Return the panel that a key leads to."""
        count = len(self.panels)
        if key in _PANEL_STEPS:
            return self.panels[(self.panels.index(self.panel) + _PANEL_STEPS[key]) % count]
        is_number = len(key) == 1 and key in "123456789" and int(key) <= count
        return self.panels[int(key) - 1] if is_number else None

    def _sorted(self, step: int, columns: Mapping[str, int]) -> TopView:
        """Go on to the next column; of the overview, clients are sorted."""
        panel = CLIENTS if self.panel == OVERVIEW else self.panel
        orders: list[int | None] = [None, *range(columns.get(panel, 0))]
        at = orders.index(found) if (found := self.sorting.get(panel)) in orders else 0
        chosen = orders[(at + step) % len(orders)]
        return replace(self, sorting={**self.sorting, panel: chosen}, first_row=0)


def _interval(now_s: float, is_longer: bool) -> float:
    """Return the next longer or shorter one."""
    if is_longer:
        return min((one for one in INTERVALS_S if one > now_s), default=now_s)
    return max((one for one in INTERVALS_S if one < now_s), default=now_s)
