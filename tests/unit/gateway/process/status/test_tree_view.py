"""The tree as it is drawn shows who is in it, collectors too."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.coap_client import ClientError, Response
from gateway.process.status.hierarchy_view import DrawnHierarchy
from gateway.process.status.tree_view import TreeView, collect


def neighbour(name: str, role: str, capability: float = 5.0, **more: Any) -> dict[str, Any]:
    return {
        "id": name,
        "role": role,
        "capability": capability,
        "forwarding": True,
        "rtt_ms": 0.4,
        "queued_bytes": 0,
    } | more


def gateway(parent: str | None, *neighbours: dict[str, Any]) -> dict[str, Any]:
    return {
        "domain": "",
        "group": "",
        "parent": parent,
        "root": "gw-a",
        "cost_ms": 1,
        "mqtt_clients": 0,
        "neighbours": list(neighbours),
    }


VIEW = TreeView(
    {
        "gw-a": gateway(
            None,
            neighbour("gw-b", "designated"),
            neighbour("attic", "designated", 0.0, queued_bytes=10, backlog_bytes=90),
            neighbour("gw-new", "designated"),
        ),
        "gw-b": gateway(
            "gw-a",
            neighbour("gw-a", "root"),
            neighbour("attic", "blocked", 0.0),
            neighbour("cellar", "designated", 0.0),
            neighbour("gw-gone", "designated", 0.0),
        ),
    },
    {"gw-gone": "5.04"},
)


def test_a_collector_hangs_below_the_gateway_that_feeds_it() -> None:
    assert VIEW.as_text().splitlines() == [
        "gw-a  -/-, root, 0 clients, 10 bytes queued",
        "├─ gw-b  -/-, cost 1 ms, rtt 0.4 ms, 0 clients",
        "│  └─ cellar  collector, rtt 0.4 ms",
        "└─ attic  collector, rtt 0.4 ms, 100 bytes behind",
        "stands by: gw-b - attic",
        "no answer: gw-gone (5.04)",
    ]


def test_one_client_is_one_client() -> None:
    alone = TreeView({"gw-a": gateway(None) | {"mqtt_clients": 1}}, {})
    assert alone.as_text().splitlines() == ["gw-a  -/-, root, 1 client"]


def test_scripts_are_told_of_collectors_too() -> None:
    assert VIEW.as_json()["collectors"] == {"gw-a": ["attic"], "gw-b": ["cellar"]}


def test_each_gateway_is_one_line_with_how_it_stands() -> None:
    root = gateway(None, neighbour("gw-b", "designated"), neighbour("gw-c", "designated"))
    told = {"domain": "campus", "group": "north", "cost_ms": 3, "mqtt_clients": 2, "drain": {}}
    waits = neighbour("gw-a", "root", rtt_ms=None, forwarding=False, queued_bytes=40)
    view = TreeView(
        {
            "gw-a": root | {"domain": "campus"},
            "gw-b": gateway("gw-a", waits) | told,
            "gw-c": gateway("gw-a", neighbour("gw-a", "root", rtt_ms=0.05)) | {"drain": None},
            "gw-d": gateway("gw-x"),
        },
        {},
    )
    assert view.as_text().splitlines() == [
        "gw-a  campus/-, root, 0 clients",
        "├─ gw-b  campus/north, cost 3 ms, rtt ? ms, joining, 2 clients, 40 bytes queued, draining",
        "└─ gw-c  -/-, cost 1 ms, rtt 0.1 ms, 0 clients",
        "gw-d  -/-, parent gw-x is silent, 0 clients",
    ]
    assert view.as_json()["roots"] == ["gw-a", "gw-d"]


def test_a_link_stands_by_if_both_ends_say_so_and_is_told_of_once() -> None:
    blocked = {"gw-b": "blocked", "gw-c": "blocked", "gw-d": "designated"}
    others = {
        name: gateway(None, neighbour("gw-a", role)) | {"parent": "gw-a"}
        for name, role in blocked.items()
    }
    root = gateway(None, *(neighbour(name, "blocked") for name in blocked))
    lines = TreeView({"gw-a": root, **others}, {}).as_text().splitlines()
    assert [line for line in lines if line.startswith("stands")] == [
        "stands by: gw-a - gw-b",
        "stands by: gw-a - gw-c",
    ]


ANSWERS = {
    "/status": b'{"id":"gw-a","places":{"gw-a":"-/-","gw-b":"c/n","gw-c":"-/-"}}',
    "/q/c/n/gw-b/status": b'{"id":"gw-b","places":{}}',
}


async def test_all_gateways_that_one_knows_are_asked_through_it_and_who_fails_is_named() -> None:
    async def ask(path: str) -> Response:
        if path in ANSWERS:
            return Response("2.05", ANSWERS[path], None)
        return Response("5.04", b"no \x1b way", None)

    view = await collect(ask)
    assert list(view.gateways) == ["gw-a", "gw-b"]
    assert view.silent == {"gw-c": "5.04 no \\x1b way"}


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (Response("4.01", b"", None), "4.01"),
        (Response("4.01", b"who are you", None), "4.01 who are you"),
        (Response("2.05", b"{", None), "its answer is no JSON that can be read"),
        (Response("2.05", b"[" * 100_000, None), "its answer is no JSON that can be read"),
        (Response("2.05", b"[]", None), "its answer is no status"),
        (Response("2.05", b'{"id":7}', None), "its answer is no status"),
        (Response("2.05", b'{"id":"gw-a"}', None), "tells its place on its own machine and to "),
    ],
)
async def test_an_answer_that_is_no_status_is_told_why(answer: Response, why: str) -> None:
    async def ask(_path: str) -> Response:
        return answer

    with pytest.raises(ClientError) as raised:
        await collect(ask)
    told = str(raised.value)
    assert told.startswith(why) if why.endswith(" ") else told == why


def test_the_hierarchy_is_drawn_from_its_root_down() -> None:
    def one(name: str, place: str, parent: str | None, **more: Any) -> dict[str, Any]:
        told = {"heads": [], "suspect": False, "draining": False, "substitutes": []}
        return {"id": name, "place": place, "parent": parent, **told, **more}

    heads = ["-/-", "campus/-"]
    gateways = [
        one("gw-c", "campus/south", "gw-a", suspect=True, draining=True),
        one("gw-b", "campus/north", "gw-a", heads=["campus/north"], substitutes=["gw-c", "gw-d"]),
        one("gw-d", "campus/north", "gw-b"),
        one("gw-a", "-/-", None, heads=heads, substitutes=["gw-b"]),
    ]
    assert DrawnHierarchy({"gateways": gateways}).as_text().splitlines() == [
        "gw-a  -/-, heads all and campus/-",
        "├─ gw-b  campus/north, heads campus/north, then below gw-c",
        "│  └─ gw-d  campus/north",
        "└─ gw-c  campus/south, out of reach, draining",
        "4 gateways, 1 out of reach",
    ]
    alone = DrawnHierarchy({"gateways": gateways[3:]})
    assert alone.as_text().splitlines()[-1] == "1 gateway, 0 out of reach"
