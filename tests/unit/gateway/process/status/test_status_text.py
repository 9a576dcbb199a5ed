"""A gateway's status as a person reads it."""

from __future__ import annotations

from typing import Any

from gateway.process.status.text import as_text


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
        "build": "compiled",
        "boot_epoch": 1,
        "mqtt_clients": 3,
        "log_bytes": 0,
        "last_change": {"time_s": 0.0, "why": "started"},
        "counters": {"published": 1},
        "neighbours": [],
        "dialling": {"addresses": []},
        "refused_links": [],
        "broker": {
            "clients": {"connected": 3, "disconnected": 1, "maximum": 5, "expired": 2},
            "messages": {"received": 10, "dropped": 4},
            "subscriptions": 7,
            "limits": limits,
            "refusals": {},
        }
        | broker,
    }


def test_the_build_that_runs_is_told_beside_the_event_loop() -> None:
    assert " on asyncio, compiled, 3 MQTT clients" in as_text(status())


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


def test_a_backup_that_is_overdue_is_told_and_none_where_none_is_made() -> None:
    why = "no good backup for 4 days"
    told = as_text(status() | {"backup": {"state": "overdue", "why": why, "age_s": 4 * 86_400.0}})
    said = "backup: OVERDUE, the last good one 96 hours old; no good backup for 4 days"
    assert said in told.splitlines()
    for backup in ({"state": "off", "why": "", "age_s": None}, {}, None):
        assert "backup" not in as_text(status() | {"backup": backup})


def test_a_gateway_that_tells_nothing_of_its_broker_is_shown_all_the_same() -> None:
    older = status()
    del older["broker"]
    assert "root of the tree" in as_text(older)


ROUTED: dict[str, Any] = {
    "interests": {},
    "owed": {},
    "counters": {"originated": 3, "carried": 4, "lost_for_others": 0},
    "overlays": None,
}


def told(routed: dict[str, Any]) -> list[str]:
    """The lines that are there because of routed mode."""
    without = as_text(status()).splitlines()
    return [
        line for line in as_text(status() | {"routed": routed}).splitlines() if line not in without
    ]


def test_in_routed_mode_its_counters_are_told() -> None:
    assert told(ROUTED) == ["routed: carried 4, lost_for_others 0, originated 3"]


def test_who_is_owed_most_is_told() -> None:
    owed = {f"gw-{number}": number for number in range(1, 9)}
    line = "messages owed to gateways: gw-8 8, gw-7 7, gw-6 6, gw-5 5, gw-4 4, gw-3 3 and 2 more"
    assert told(ROUTED | {"owed": owed})[1:] == [line]


def test_in_topic_mode_overlays_are_counted() -> None:
    overlays = {
        "policy": "capacity",
        "rooted": 1,
        "overlays": [{"settled": True}, {"settled": False}],
        "over_limit": 3,
        "disconnected": 1,
        "counters": {"routed_instead": 7},
    }
    line = "overlays: in 2, 1 settled, root of 1, 4 left out, routed_instead 7"
    assert told(ROUTED | {"overlays": overlays})[1:] == [line]


def test_a_full_disk_is_told_with_the_room_that_it_has() -> None:
    disk = {"failure": "No space left on device", "free_bytes": 40960}
    told = "disk: No space left on device, so that messages are refused; 0.0 MB free"
    assert told in as_text(status() | {"disk": disk})
    nearly = {"failure": "", "free_bytes": 40960}
    assert "disk: full, so that messages are refused; 0.0 MB" in as_text(
        status() | {"disk": nearly}
    )
    room = {"failure": "", "free_bytes": 52_300_000}
    assert "disk: 52.3 MB free\n" in as_text(status() | {"disk": room})
