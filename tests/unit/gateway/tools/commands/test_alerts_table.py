"""`hedgerow alerts` shows the state of each alert: its owner, or the reason for silence."""

from __future__ import annotations

import argparse
import datetime
import time
from typing import Any

import pytest

from gateway.tools.commands import alerts
from gateway.tools.commands.errors import FailedError, WrongUseError

SINCE_S = 1_700_000_000
STANDS: dict[str, Any] = {
    "alert": "hot:gw-a:-",
    "severity": "warning",
    "rule": "hot",
    "gateway": "gw-a",
    "site": "campus/north",
    "part": "",
    "message": "its processor has 81 °C",
    "what_to_do": "give it air",
    "since_us": SINCE_S * 1_000_000,
    "taken_on": None,
    "silence": None,
    "is_told": True,
}
CRITICAL = STANDS | {"severity": "critical"}
TAKEN = {"who": "key:ines", "at_us": (SINCE_S + 60) * 1_000_000, "note": ""}
WELL: dict[str, Any] = {"alerts": [], "cleared": [], "silences": [], "ways": {}, "left_out": 0}
SILENT = {
    "number": 3,
    "matcher": {"rule": "disk-*", "gateway": "gw-a"},
    "begins_us": 0,
    "ends_us": (SINCE_S + 3_600) * 1_000_000,
    "who": "key:ines",
    "note": "",
}
UNTROUBLED = {"waiting": 0, "delivered": 7, "dropped": 0, "trouble": ""}


def local(at_s: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at_s))


def table(*, with_cleared: bool = False, **told: Any) -> list[str]:
    return alerts.as_table(WELL | told, with_cleared=with_cleared).split("\n")


def ordered(action: str, *what: str, document: dict[str, Any] | None = None, **more: Any) -> Any:
    given = {"for_s": None, "begins": None, "note": ""} | more
    options = argparse.Namespace(action=action, what=list(what), **given)
    return alerts.order(options, document)


@pytest.mark.parametrize(
    ("known", "state"),
    [
        ({}, "told"),
        ({"is_told": False}, "hidden by another"),
        ({"is_told": False, "silence": 3}, "silence 3"),
        (
            {"silence": 3, "taken_on": {"who": "key:ines", "at_us": 1, "note": ""}},
            "taken on by key:ines",
        ),
    ],
)
def test_the_state_of_an_alert_is_said_alike_in_the_table_and_of_it_alone(
    known: dict[str, Any], state: str
) -> None:
    one = STANDS | known
    document = {"alerts": [one], "silences": [], "ways": {}, "left_out": 0}
    _, row = alerts.as_table(document, with_cleared=False).splitlines()
    assert f"  {state}  " in row
    (line,) = [line for line in alerts.as_text(one).splitlines() if line.startswith("state ")]
    assert line.split(maxsplit=1)[1] == state


def test_the_table_has_what_stands_and_only_where_it_is_asked_for_what_is_over() -> None:
    over = STANDS | {"alert": "cold:gw-b:cpu", "rule": "cold", "gateway": "gw-b", "part": "cpu"}
    cleared = [over | {"at_us": (SINCE_S + 60) * 1_000_000}]
    since = local(SINCE_S)
    assert table(alerts=[STANDS], cleared=cleared) == [
        f"severity  rule  gateway  part  since{' ' * 16}state  alert",
        f"warning   hot   gw-a     -     {since}  told   hot:gw-a:-",
    ]
    gap, ended = " " * 25, f"over at {local(SINCE_S + 60)}"
    assert table(alerts=[STANDS], cleared=cleared, with_cleared=True) == [
        f"severity  rule  gateway  part  since{' ' * 16}state{' ' * 24}alert",
        f"warning   hot   gw-a     -     {since}  told {gap[1:]}hot:gw-a:-",
        f"warning   cold  gw-b     cpu   {since}  {ended}  cold:gw-b:cpu",
    ]
    assert table(cleared=cleared) == ["nothing is wrong"]
    assert table(cleared=cleared, with_cleared=True)[2:] == ["nothing is wrong"]


@pytest.mark.parametrize(
    ("known", "line"),
    [
        ({}, "silence 3: gateway=gw-a rule=disk-*, until {end} (key:ines)"),
        ({"matcher": {}}, "silence 3: all alerts, until {end} (key:ines)"),
        (
            {"begins_us": SINCE_S * 1_000_000, "note": "new disk"},
            "silence 3: gateway=gw-a rule=disk-*, from {begin} until {end} (key:ines): new disk",
        ),
        ({"note": "\x1b[2J"}, r"silence 3: gateway=gw-a rule=disk-*, until {end} (key:ines): "
         r"\x1b[2J"),
        ({"ends_us": 10**30}, "silence 3: gateway=gw-a rule=disk-*, until ? (key:ines)"),
    ],
)  # fmt: skip
def test_a_silence_says_of_what_from_when_until_when_and_whose_it_is(
    known: dict[str, Any], line: str
) -> None:
    said = line.format(begin=local(SINCE_S), end=local(SINCE_S + 3_600))
    assert table(silences=[SILENT | known]) == ["nothing is wrong", said]


def test_a_way_out_is_told_where_something_waits_there_was_dropped_or_is_in_trouble() -> None:
    ways = {
        "mail": UNTROUBLED,
        "page": UNTROUBLED | {"waiting": 1},
        "hook": UNTROUBLED | {"dropped": 1},
        "chat": UNTROUBLED | {"trouble": "refused"},
    }
    assert table(ways=ways, left_out=2) == [
        "nothing is wrong",
        "page: 1 wait, 0 dropped",
        "hook: 0 wait, 1 dropped",
        "chat: 0 wait, 0 dropped: refused",
        "2 more were not raised: too many stood",
    ]


@pytest.mark.parametrize(
    ("known", "told"),
    [
        ({}, {}),
        ({"site": "", "part": "cpu"}, {"gateway": "gw-a (-)", "part": "cpu"}),
        (
            {"taken_on": TAKEN},
            {
                "taken on by": f"key:ines at {local(SINCE_S + 60)}",
                "state": "taken on by key:ines",
            },
        ),
        (
            {"taken_on": TAKEN | {"note": "fan is\nordered"}},
            {
                "taken on by": rf"key:ines at {local(SINCE_S + 60)}: fan is\nordered",
                "state": "taken on by key:ines",
            },
        ),
    ],
)
def test_of_one_alert_all_is_told(known: dict[str, Any], told: dict[str, str]) -> None:
    rows = {
        "alert": "hot:gw-a:-",
        "rule": "hot (warning)",
        "gateway": "gw-a (campus/north)",
        "part": "-",
        "since": local(SINCE_S),
        "state": "told",
        "seen": "its processor has 81 °C",
        "what to do": "give it air",
        "taken on by": "nobody",
    } | told
    lines = [f"{name:11}  {value}" for name, value in rows.items()]
    assert alerts.as_text(STANDS | known).split("\n") == lines


def test_rules_are_a_table_with_their_times() -> None:
    rule = {"severity": "critical", "after_s": 90.0, "clears_after_s": 0.5, "what_to_do": "look"}
    assert alerts.rules_table({"rules": {"hot": rule}}).split("\n") == [
        "rule  severity  after  clears after  what to do",
        "hot   critical  90 s   0.5 s         look",
    ]


@pytest.mark.parametrize(
    ("stand", "is_bad"),
    [
        ([], False),
        ([STANDS], False),
        ([STANDS, CRITICAL], True),
        ([CRITICAL | {"taken_on": TAKEN}], False),
        ([CRITICAL | {"is_told": False}], False),
    ],
)
def test_only_a_critical_alert_that_is_told_and_that_nobody_has_taken_on_is_bad(
    stand: list[dict[str, Any]], is_bad: bool
) -> None:
    assert alerts.is_bad({"alerts": stand}) is is_bad


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90.0),
        ("90s", 90.0),
        ("1.5m", 90.0),
        ("2h", 7_200.0),
        ("3d", 259_200.0),
        ("0.001", 0.001),
        ("999999999", 999_999_999.0),
    ],
)
def test_a_duration_is_a_number_and_a_unit(text: str, seconds: float) -> None:
    assert alerts.duration(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "m", "0", "0.000h", "-1", "1w", "1 h", "1.", ".5", "1.0005", "1234567890", "infs"]
)
def test_what_is_no_duration_is_named(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError) as refused:
        alerts.duration(text)
    assert str(refused.value) == f"{text!r} is no time such as 90m, 2h or 3d"


def test_a_moment_is_local_unless_it_says_otherwise() -> None:
    named = datetime.datetime(2026, 12, 1, 22, 0, tzinfo=datetime.UTC)
    at_us = 1_796_162_400_000_000
    assert alerts.moment("2026-12-01T22:00Z") == named.timestamp() * 1e6 == at_us
    assert alerts.moment("2026-12-01T22:00:00.25+00:00") == at_us + 250_000
    here = time.mktime((2026, 12, 1, 22, 0, 0, 0, 0, -1))
    assert alerts.moment("2026-12-01T22:00") == here * 1e6


@pytest.mark.parametrize("text", ["", "22:00", "tomorrow", "2026-13-01", "0001-01-01T00:00+23:59"])
def test_what_is_no_moment_is_named(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError) as refused:
        alerts.moment(text)
    assert str(refused.value) == f"{text!r} is no time such as 2026-12-01T22:00"


@pytest.mark.parametrize(
    ("action", "what", "more", "order"),
    [
        ("ack", ["hot"], {"note": "mine"}, {"do": "ack", "alert": "hot:gw-a:-", "note": "mine"}),
        ("close", ["hot:gw-a:-"], {}, {"do": "close", "alert": "hot:gw-a:-"}),
        (
            "silence",
            ["rule=disk-*", "gateway=a=b"],
            {},
            {
                "do": "silence",
                "match": {"rule": "disk-*", "gateway": "a=b"},
                "for_s": 3_600.0,
                "begins_us": 0,
                "note": "",
            },
        ),
        (
            "silence",
            ["rule=hot"],
            {"for_s": 60.0, "begins": 5, "note": "new fan"},
            {
                "do": "silence",
                "match": {"rule": "hot"},
                "for_s": 60.0,
                "begins_us": 5,
                "note": "new fan",
            },
        ),
        ("unsilence", ["12"], {}, {"do": "unsilence", "number": 12}),
        ("test", ["mail", "hook"], {}, {"do": "test", "ways": ["mail", "hook"]}),
        ("test", [], {}, {"do": "test", "ways": []}),
    ],
)
def test_each_order_says_what_is_to_be_done(
    action: str, what: list[str], more: dict[str, Any], order: dict[str, Any]
) -> None:
    assert ordered(action, *what, document={"alerts": [STANDS]}, **more) == order


@pytest.mark.parametrize(
    ("action", "what", "why"),
    [
        ("ack", [], "ack: the name of one alert is needed"),
        ("close", ["hot", "cold"], "close: the name of one alert is needed"),
        ("silence", [], "silence: which alerts, as in rule=hot gateway=gw-*, is needed"),
        ("silence", ["rule"], "silence: 'rule' is not FIELD=PATTERN"),
        ("silence", ["rule="], "silence: 'rule=' is not FIELD=PATTERN"),
        ("silence", ["rule=hot", "=hot"], "silence: '=hot' is not FIELD=PATTERN"),
        ("unsilence", [], "unsilence: the number of one silence is needed"),
        ("unsilence", ["1", "2"], "unsilence: the number of one silence is needed"),
        ("unsilence", ["-1"], "unsilence: the number of one silence is needed"),
    ],
)
def test_an_order_that_lacks_something_says_what(action: str, what: list[str], why: str) -> None:
    with pytest.raises(WrongUseError) as refused:
        ordered(action, *what, document={"alerts": [STANDS]})
    assert str(refused.value) == why


def test_an_alert_is_named_by_its_whole_name_or_by_a_beginning_that_no_other_has() -> None:
    names = ("hot:gw-a:-", "hot:gw-a:-2", "cold:gw-a:-")
    document = {"alerts": [STANDS | {"alert": name} for name in names]}
    for said, found in (("hot:gw-a:-", 0), ("hot:gw-a:-2", 1), ("c", 2)):
        assert alerts.one_of(document, [said], "show")["alert"] == names[found]
    for said, count in (("hot", 2), ("x", 0), ("", 3)):
        with pytest.raises(FailedError) as refused:
            alerts.one_of(document, [said], "show")
        assert str(refused.value) == f"{said!r}: {count} alerts begin so, not one"


@pytest.mark.parametrize(
    ("action", "told", "said"),
    [
        ("ack", {"alert": "hot:gw-a:-"}, "hot:gw-a:- is acknowledged"),
        ("close", {"alert": "hot:gw-a:-"}, "hot:gw-a:- is closed"),
        (
            "silence",
            {"number": 3, "match": "rule=hot", "ends_us": SINCE_S * 1_000_000},
            f"silence 3: rule=hot, until {local(SINCE_S)}",
        ),
        ("unsilence", {"number": 3}, "silence 3 has ended"),
        (
            "test",
            {"ways": ["mail", "hook"]},
            "a trial alert waits for mail, hook; `hedgerow alerts` says what comes of it",
        ),
    ],
)
def test_what_an_order_has_come_to_is_told(action: str, told: dict[str, Any], said: str) -> None:
    assert alerts.done(action, told) == said
