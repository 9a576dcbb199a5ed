"""The demo's page says what came of a run, and escapes whatever it was told."""

from __future__ import annotations

import re
from typing import Any

import pytest

from gateway.tools.demo import figures, page, page_tables
from gateway.tools.demo.result import Result

NODES = [
    {"id": "gw-root", "kind": "root", "note": "root · 3"},
    {"id": "gw-north", "kind": "gateway", "note": "2"},
    {"id": "cloud", "kind": "collector", "note": ""},
]
LINKS = [{"one": "gw-north", "other": "gw-root", "carries": True}]


def delivery(
    gateway: str, sent_s: float, acknowledged_s: float | None, arrived_s: float | None
) -> dict[str, Any]:
    return {
        "gateway": gateway,
        "sent_s": sent_s,
        "acknowledged_s": acknowledged_s,
        "arrived_s": arrived_s,
    }


def a_run(**changes: Any) -> dict[str, Any]:
    """Return the result of a run in which all was well."""
    made = Result(
        acknowledged=12_345,
        ingested=12_346,
        converged_s=1.5,
        heal_s=2.25,
        rejoin_s=3.5,
        remote_read_ms=4.5,
        total_s=67.0,
        remote_read='[{"n":"load"}]',
        killed="gw-root",
        subscriber="gw-north",
        trees={"before": ["gw-root", "  <gw-north>"]},
        networks={name: {"nodes": NODES, "links": LINKS} for name in ("before", "healed")},
        timeline={
            "moments": {"killed_s": 8.0, "healed_s": 9.25, "back_s": 11.0, "until_s": 20.0},
            "told": {"gw-root": [[0.0, "gw-root"]]},
            "deliveries": [
                delivery("gw-root", 1.0, 1.25, 1.0625),
                delivery("gw-north", 2.0, 2.5, 2.5),
                delivery("gw-root", 8.0, 9.5, None),
            ],
        },
        curves=[
            {"sensor": "light", "gateway": name, "unit": "lx", "points": [[1.0, 5.0]]}
            for name in ("gw-root", "gw-north")
        ],
        tally={
            "total": 9_876,
            "control": 1_234,
            "adds_up": True,
            "in_table": {"gw-root": 9_000, "gw-north": 876},
            "lines": [{"what": "<all>", "by_gateway": {"gw-root": 9_000}, "total": 9_876}],
        },
        fleet={
            "gateways": [
                {"gateway": "gw-root", "domain": "d", "group": "g", "messages": 7, "gaps": 1}
                | {"duplicates": 2, "last_seen": "2026-01-02T03:04:05.678"},
            ]
        },
    )
    return made.as_json() | changes


@pytest.mark.parametrize(
    ("changes", "verdict", "headline"),
    [
        ({}, "kept", "A gateway was killed. Nothing was lost, and nothing doubled."),
        (
            {"acknowledged": 0},
            "broken",
            "A gateway was killed, and there was nothing to count.",
        ),
        ({"lost": 1_234}, "broken", "A gateway was killed: 1,234 lost, 0 doubled."),
        ({"doubled": 5}, "broken", "A gateway was killed: 0 lost, 5 doubled."),
    ],
)
def test_the_headline_is_what_came_of_the_promises(
    changes: dict[str, Any], verdict: str, headline: str
) -> None:
    text = page.render(a_run(**changes))
    assert re.findall(r'<body class="(.*?)">', text) == [verdict]
    assert re.findall(r"<h1>(.*?)</h1>", text) == [headline]
    kept = Result(**a_run(**changes)).kept_its_promises
    assert kept is (verdict == "kept")


def test_the_figures_of_a_run_stand_in_its_page() -> None:
    text = page.render(a_run(killed="<gw>"))
    items = re.findall(r"<li[^>]*><b>(.*?)</b> (.*?)</li>", text)
    assert items == [
        ("12,345", "readings acknowledged to devices"),
        ("12,346", "of the devices' in the table"),
        ("0", "lost"),
        ("0", "doubled"),
        ("2.25 s", "until messages flowed again"),
        ("3.5 s", "from a new start to root again"),
    ]
    assert "published recorded readings, 3 in all" in text
    assert "In their midst <b>&lt;gw&gt;</b>" in text
    assert "This is what its 9,876 messages are" in text
    assert "DTLS: 4.5 ms, and" in text
    assert "<pre>[{&quot;n&quot;:&quot;load&quot;}]</pre>" in text
    assert "<code>hedgerow demo</code> in 67.0 s." in text
    assert "counted apart" not in text
    assert "$" not in text


def test_what_the_killed_gateway_took_with_it_is_told_where_there_is_any() -> None:
    text = page.render(a_run(acknowledged_before_log=1_500))
    assert (
        '<p class="soft">1,500 more were acknowledged by the killed gateway before its log had '
        "them, and are counted apart.</p>" in text
    )


def test_a_run_that_told_nothing_has_a_page_too() -> None:
    assert "0 in all" in page.render(Result().as_json())


def test_the_verdict_is_a_sentence() -> None:
    assert Result(acknowledged=1_000, ingested=999, lost=1, doubled=2).verdict == (
        "1,000 messages acknowledged, 999 in the table: 1 lost, 2 doubled."
    )
    assert Result(acknowledged_before_log=3).verdict == (
        "0 messages acknowledged, 0 in the table: 0 lost, 0 doubled, "
        "3 acknowledged by the killed gateway before its log."
    )


# -- figures ---------------------------------------------------------------------------------------


def said(text: str) -> list[tuple[str, str]]:
    """Return the title of each figure, and what its drawing says in words."""
    titles = re.findall(r"<h3>(.*?)</h3>", text)
    return list(zip(titles, re.findall(r"In words</summary><p>(.*?)</p>", text), strict=True))


def test_a_tree_is_drawn_for_each_moment_that_was_told() -> None:
    text = figures.trees(a_run())
    assert re.findall(r"<h3>(.*?)</h3><p>(.*?)</p>", text) == [
        ("Before", "One tree, 1.5 s after the first process was started."),
        ("gw-root is killed", "Messages flowed again after 2.25 s."),
    ]
    assert re.findall(r"<pre>(.*?)</pre>", text, re.DOTALL) == ["gw-root\n  &lt;gw-north&gt;", ""]
    assert re.findall(r'<svg viewBox="[^"]*" role="img" aria-labelledby="(.*?)">', text) == [
        "tree-before-title tree-before-text",
        "tree-healed-title tree-healed-text",
    ]


def test_charts_are_drawn_for_a_desktop_and_a_phone_and_said_once() -> None:
    text = figures.charts(a_run())
    moments = "gw-root is killed at 8.0 s, and is back at 11.0 s."
    assert said(text) == [
        (
            "The gateway that each one called the root",
            f"{moments} gw-root said: gw-root until 20.0 s. gw-north said: no answer until 20.0 s.",
        ),
        ("Readings of light at gw-root", f"1 readings from 5 to 5 lx. {moments}"),
        ("Readings of light at gw-north", f"1 readings from 5 to 5 lx. {moments}"),
        (
            "Messages a second that arrived at a subscriber of gw-north",
            f"{moments} Messages a second from gw-root: 0 before the kill, 0 while gw-root was "
            "away, 0 after its return. Messages a second from gw-north: 0 before the kill, 0 while "
            "gw-root was away, 0 after its return.",
        ),
    ]
    fates = re.findall(r"As they stand in the telemetry table. (.*?)</p>", text)
    assert fates == [
        "Its gateway is the one that was killed: the device can&#x27;t publish until it is back.",
        "Its gateway went on, and so did the readings.",
    ]
    assert (
        re.findall(r'<div class="(\w+)"><svg viewBox="0 0 (\d+) ', text)
        == [
            ("wide", "800"),
            ("narrow", "340"),
        ]
        * 4
    )
    names = ("roots", "readings-0", "readings-1", "rates")
    assert re.findall(r'<title id="(.*?)-title">', text) == [
        f"{name}-{width}" for name in names for width in ("wide", "narrow")
    ]
    assert re.findall(r'class="curve (g\d)"', text) == ["g0", "g0", "g1", "g1"]
    # One message of each gateway arrived; that of the third did not.
    assert [text.count(f'class="bar g{at}"') for at in (0, 1)] == [2 + 2, 2]


def test_delays_are_of_what_arrived_from_the_gateways_of_others() -> None:
    text = figures.latency_chart(a_run())
    assert said(text) == [
        (
            "From the device to a subscriber of gw-north, through the tree",
            "1 messages: half of them within 62.5 ms, 99 of 100 within 62.5 ms, the slowest "
            "62.5 ms. gw-root is killed at 8.0 s, and is back at 11.0 s.",
        )
    ]
    assert re.findall(r"<li>.*?</svg>(.*?)</li>", text) == [
        "half of a second&#x27;s messages took no longer (p50)",
        "99 of 100 (p99)",
        "one message",
    ]


def test_a_legend_has_a_mark_before_each_word() -> None:
    assert figures.network_legend() == (
        '<ul class="legend"><li><svg viewBox="0 0 24 12" aria-hidden="true">'
        '<line x1="0" x2="24" y1="6" y2="6" class="link carries" /></svg>carries messages</li>'
        '<li><svg viewBox="0 0 24 12" aria-hidden="true">'
        '<line x1="0" x2="24" y1="6" y2="6" class="link reserve" /></svg>stands by</li></ul>'
    )


# -- tables ----------------------------------------------------------------------------------------


def rows(text: str) -> list[list[str]]:
    """Return the cells of each row of a table."""
    found = re.findall(r"<tr>(.*?)</tr>", text, re.DOTALL)
    return [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL) for row in found]


def test_moments_stand_in_their_order_with_what_happened() -> None:
    text = page_tables.moments(a_run())
    assert re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", text) == [
        ("8.00 s", "gw-root is killed with SIGKILL"),
        (
            "9.25 s",
            "the first message published after that reaches a subscriber of gw-north",
        ),
        ("11.00 s", "all gateways call gw-root the root again"),
        ("20.00 s", "the devices stop"),
    ]


def test_an_account_has_a_column_a_gateway_and_its_sum_below() -> None:
    text = page_tables.account(a_run())
    assert rows(text) == [
        ["messages that a gateway took", "gw-root", "gw-north", "all"],
        ["&lt;all&gt;", "9,000", "0", "9,876"],
        ["in the telemetry table, as Spark counted them", "9,000", "876", "9,876"],
    ]
    assert "<tfoot><tr>" in text
    assert "do not add up" not in text
    broken = a_run(tally={"adds_up": False})
    assert page_tables.account(broken).endswith("<p><b>These do not add up.</b></p>")
    assert page_tables.control(a_run()).startswith("Beside these, 1,234 messages of the gateways")


def test_the_fleet_has_a_row_a_gateway_and_its_times_no_fractions() -> None:
    text = page_tables.fleet(a_run())
    assert rows(text) == [
        [
            "gateway",
            "domain",
            "group",
            "messages",
            "sequence gaps",
            "duplicates",
            "last seen (UTC)",
        ],
        ["gw-root", "d", "g", "7", "1", "2", "2026-01-02 03:04:05"],
    ]
    assert "<tfoot>" not in text
    assert '<div class="scroll" role="region" aria-label="A row a gateway" tabindex="0">' in text


def test_delays_are_told_by_the_moment_of_their_publication() -> None:
    assert rows(page_tables.latency(a_run())) == [
        ["milliseconds from publication", "published", "messages", "p50", "p99", "slowest"],
        ["to the device&#x27;s acknowledgement", "before the kill", "2", "250.0", "500.0", "500.0"],
        [
            "to the device&#x27;s acknowledgement",
            "until the return",
            "1",
            "1,500.0",
            "1,500.0",
            "1,500.0",
        ],
        ["to the device&#x27;s acknowledgement", "after it", "0", "–", "–", "–"],
        ["to a subscriber of gw-north", "before the kill", "1", "62.5", "62.5", "62.5"],
        ["to a subscriber of gw-north", "until the return", "0", "–", "–", "–"],
        ["to a subscriber of gw-north", "after it", "0", "–", "–", "–"],
    ]


def test_a_gateway_has_a_swatch_in_its_colour() -> None:
    swatches = [
        f'<li><svg viewBox="0 0 24 12" aria-hidden="true"><rect width="24" height="12" rx="3" '
        f'class="bar {style}" /></svg>{name}</li>'
        for style, name in (("g0", "gw-root"), ("g1", "gw-north"))
    ]
    assert figures.gateway_legend(a_run()) == f'<ul class="legend">{"".join(swatches)}</ul>'
