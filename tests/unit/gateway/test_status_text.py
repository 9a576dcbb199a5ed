"""A gateway's status as a person reads it."""

from __future__ import annotations

from typing import Any

from gateway.status_text import as_text


def status(**broker: Any) -> dict[str, Any]:
    limits = {"connections": {"used": 3, "limit": 100}}
    return {
        "id": "gw",
        "domain": "",
        "group": "",
        "parent": None,
        "root": "gw",
        "hops": 0,
        "cost_ms": 0,
        "capability": 1.0,
        "up_s": 1.0,
        "event_loop": "asyncio",
        "boot_epoch": 1,
        "mqtt_clients": 3,
        "log_bytes": 0,
        "last_change": {"time_s": 0.0, "why": "started"},
        "counters": {"published": 1},
        "neighbours": [],
        "broker": {
            "clients": {"connected": 3, "disconnected": 1, "maximum": 5, "expired": 2},
            "messages": {"received": 10, "dropped": 4},
            "subscriptions": 7,
            "limits": limits,
            "refusals": {},
        }
        | broker,
    }


def test_clients_and_messages_are_told_in_a_line_each() -> None:
    text = as_text(status())
    assert "clients: 3 connected (at most 5), 1 away, 2 expired; 7 subscriptions" in text
    assert "messages: 10 received, 4 dropped" in text
    assert "more than half used" not in text
    assert "refused" not in text


def test_a_limit_that_is_near_and_what_was_refused_are_told() -> None:
    text = as_text(
        status(
            limits={"sessions": {"used": 60, "limit": 100}},
            refusals={"few": 1, "connection over the limit": 9},
        )
    )
    assert "more than half used: sessions 60 of 100" in text
    assert "refused: connection over the limit 9, few 1" in text


def test_a_gateway_that_tells_nothing_of_its_broker_is_shown_all_the_same() -> None:
    older = status()
    del older["broker"]
    assert "root of the tree" in as_text(older)
