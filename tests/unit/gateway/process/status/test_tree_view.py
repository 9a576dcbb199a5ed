"""The tree as it is drawn shows who is in it, collectors too."""

from __future__ import annotations

from typing import Any

from gateway.process.status.tree_view import TreeView


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
