"""The demo's account: each message of the table stands in one line, and the lines add up."""

from __future__ import annotations

from typing import Any

from gateway.tools.demo import tally as lines
from gateway.tools.demo.network import DemoLink, DemoNode, network
from gateway.tools.demo.picture import draw
from gateway.tools.demo.tally import Tally, tally

LIGHT = "-/-/a/device/light"


def account(**changes: Any) -> Tally:
    given: dict[str, Any] = {
        "rows": [("a", LIGHT, 3), ("a", "-/-/a/host/load1", 4), ("b", "-/-/b/host/load1", 2)],
        "device_rows": [("a", (LIGHT, number)) for number in (1, 2, 3)],
        "acknowledged": {(LIGHT, 1), (LIGHT, 2)},
        "is_sensor": lambda origin, topic: topic.startswith(f"-/-/{origin}/"),
        "fleet": [
            {"gateway": "a", "messages": 7, "control": 5},
            {"gateway": "b", "messages": 2, "control": 1},
        ],
    }
    return tally(**(given | changes))


def test_each_message_stands_in_one_line_and_the_lines_make_what_spark_counted() -> None:
    found = account()
    assert {line.what: line.total for line in found.lines} == {
        lines.ACKNOWLEDGED: 2,
        lines.UNACKNOWLEDGED: 1,
        lines.SENSORS: 6,
    }
    assert found.total == sum(line.total for line in found.lines) == 9
    assert found.control == 6
    assert found.adds_up


def test_a_message_that_no_line_knows_of_does_not_add_up() -> None:
    found = account(fleet=[{"gateway": "a", "messages": 8, "control": 0}])
    assert not found.adds_up
    assert found.as_text()[-1] == "These do not add up."
    assert found.as_json()["adds_up"] is False


def test_copies_and_messages_of_others_have_lines_of_their_own() -> None:
    found = account(
        rows=[("a", LIGHT, 2), ("a", "elsewhere", 1)],
        device_rows=[("a", (LIGHT, 1)), ("a", (LIGHT, 1))],
        fleet=[{"gateway": "a", "messages": 3, "control": 0}],
    )
    totals = {line.what: line.total for line in found.lines}
    assert (totals[lines.AGAIN], totals[lines.OTHERS]) == (1, 1)
    assert found.adds_up


def test_the_account_reads_as_a_column_of_figures() -> None:
    text = account(fleet=[{"gateway": "a", "messages": 1606, "control": 5}]).as_text()
    assert text[0] == f"    2  {lines.ACKNOWLEDGED}"
    assert text[3] == "1,606  in the table, as Spark counted them"


def test_nothing_adds_up_to_nothing() -> None:
    assert account(rows=[], device_rows=[], fleet=[]).adds_up
    assert Tally().as_text()


# -- what gateways told ----------------------------------------------------------------------------


def status(root: str, **forwarding: bool) -> dict[str, Any]:
    neighbours = [{"id": who, "forwarding": does} for who, does in forwarding.items()]
    return {"root": root, "capability": 2000.0, "neighbours": neighbours}


def test_a_link_carries_messages_where_no_end_says_that_it_stands_by() -> None:
    told = network({"a": status("a", b=True, c=True), "b": status("a", a=False)}, ["a", "b"])
    assert told.nodes == (
        DemoNode("a", "root", "root · 2000"),
        DemoNode("b", "gateway", "2000"),
        DemoNode("c", "collector"),
    )
    assert told.links == (DemoLink("a", "b", False), DemoLink("a", "c", True))


def test_who_does_not_answer_has_no_links_though_its_neighbour_still_tells_of_one() -> None:
    told = network({"b": status("b", a=True)}, ["a", "b"])
    assert told.nodes[0] == DemoNode("a", "silent", "no answer")
    assert told.links == ()


def test_a_tree_is_lines_from_its_root_down_and_then_the_links_in_reserve() -> None:
    def one(parent: str | None, **links: bool) -> dict[str, Any]:
        neighbours = [{"id": who, "forwarding": does} for who, does in links.items()]
        place = {"domain": "farm", "group": None, "capability": 2000.0}
        return {"parent": parent, "neighbours": neighbours} | place

    statuses = {
        "a": one(None, b=True, c=True, leaf=True, away=False),
        "b": one("a", a=True, c=False, d=True),
        "c": one("a", a=True, b=False),
        "d": one("b", b=True) | {"domain": None, "group": "g"},
    }
    assert draw(statuses) == [
        "a  (farm/-, capability 2000)",
        "├─ b  (farm/-, capability 2000)",
        "│  └─ d  (-/g, capability 2000)",
        "├─ c  (farm/-, capability 2000)",
        "└─ leaf",
        "blocked: b - c",
    ]
