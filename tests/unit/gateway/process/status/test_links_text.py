"""An operator reads what keeps gateways from linking, and for how long."""

from __future__ import annotations

import time

import pytest

from gateway.process.status.links_text import ago, without_links

NOW_S = 1_795_829_400.0


@pytest.fixture(autouse=True)
def now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: NOW_S)


@pytest.mark.parametrize(
    ("before_s", "told"),
    [
        (-50.0, "0 s"),
        (0.4, "0 s"),
        (0.6, "1 s"),
        (119.0, "119 s"),
        (120.0, "2 min"),
        (7_199.0, "119 min"),
        (7_200.0, "2 h"),
        (172_799.0, "47 h"),
        (172_800.0, "2 days"),
        (260_000.0, "3 days"),
    ],
)
def test_a_time_is_told_in_the_largest_unit_of_which_there_are_two(
    before_s: float, told: str
) -> None:
    assert ago(NOW_S - before_s) == told


def test_each_neighbour_without_a_link_has_a_line_and_so_has_each_that_was_refused() -> None:
    dialled = {"linked": False, "id": "", "source": "configured", "fails_since_s": None}
    failing = {"fails_since_s": NOW_S - 90, "why": "no route", "failed": 7}
    status = {
        "dialling": {
            "addresses": [
                {**dialled, "address": "10.0.0.1:1", "linked": True},
                {**dialled, "address": "10.0.0.2:1"},
                {**dialled, **failing, "address": "10.0.0.3:1", "id": "gw-c"},
            ]
        },
        "refused_links": [
            {"address": "10.0.0.4", "why": "another key", "times": 3, "last_s": NOW_S - 600}
        ],
    }
    assert list(without_links(status)) == [
        "no link to 10.0.0.2:1 (configured): is dialled",
        "no link to 10.0.0.3:1 (gw-c): no route (for 90 s, 7 attempts)",
        "refused a link from 10.0.0.4: another key (3 times, last 10 min ago)",
    ]


def test_of_an_earlier_version_that_tells_neither_nothing_is_said() -> None:
    assert list(without_links({})) == list(without_links({"dialling": {}})) == []
