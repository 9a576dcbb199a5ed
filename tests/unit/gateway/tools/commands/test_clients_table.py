"""`hedgerow clients` shows each client in a line, and all that is known of one."""

from __future__ import annotations

import time
from typing import Any

import pytest

from gateway.tools.commands.clients import as_table, as_text, query

SINCE_S = 1_700_000_000.0
HERE: dict[str, Any] = {
    "id": "meter-17",
    "user": "",
    "by_certificate": False,
    "is_bridge": False,
    "roles": None,
    "address": "",
    "protocol": "MQTT 5.0",
    "is_connected": True,
    "since_s": SINCE_S,
    "expiry_s": 0,
    "will": "",
    "queued": 1,
    "queued_bytes": 2,
    "inflight": 3,
    "inflight_bytes": 4,
    "unreleased": 5,
    "dropped": 6,
    "reads": None,
    "buffered_bytes": 7,
    "subscriptions": 8,
    "filters": [],
}
AWAY = HERE | {
    "id": "a\nb",
    "user": "olga\x1b",
    "by_certificate": True,
    "is_bridge": True,
    "roles": ["pump", "valve"],
    "address": "10.0.0.7:5",
    "is_connected": False,
    "expiry_s": None,
    "will": "gone\t",
    "reads": False,
    "filters": [{"qos": 1, "filter": "a/#"}, {"qos": 2, "filter": "b\r"}],
}


def local(at_s: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at_s))


def test_the_table_has_a_line_for_each_client_and_their_number() -> None:
    since = local(SINCE_S)
    head = f"client    user      address     protocol  connected since{' ' * 17}"
    gap = " " * 13
    assert as_table([HERE, AWAY]).split("\n") == [
        f"{head}subs  queued  in flight  dropped",
        f"meter-17  -         -           MQTT 5.0  {since}{gap}8     1       3          6",
        rf"a\nb      olga\x1b  10.0.0.7:5  MQTT 5.0  away since {since}  "
        "8     1       3          6",
        "1 connected, 1 away",
    ]
    assert as_table([]).split("\n")[1:] == ["0 connected, 0 away"]


def rows(**told: str) -> list[str]:
    return [f"{name.replace('_', ' '):13}  {value}" for name, value in told.items()]


def test_of_one_client_all_is_told() -> None:
    assert as_text(HERE).split("\n") == rows(
        client="meter-17",
        user="-",
        roles="-",
        address="-",
        protocol="MQTT 5.0",
        connected=f"since {local(SINCE_S)}",
        session_ends="0 s after it left",
        will="-",
        queued="1 (2 bytes in memory)",
        in_flight="3 (4 bytes)",
        not_released="5 of its QoS 2 messages",
        dropped="6",
        socket="-",
        subscriptions="8",
    )
    assert as_text(AWAY).split("\n") == [
        *rows(
            client=r"a\nb, a bridge",
            user=r"olga\x1b (by certificate)",
            roles="pump, valve",
            address="10.0.0.7:5",
            protocol="MQTT 5.0",
            connected=f"no, away since {local(SINCE_S)}",
            session_ends="never",
            will=r"gone\t",
            queued="1 (2 bytes in memory)",
            in_flight="3 (4 bytes)",
            not_released="5 of its QoS 2 messages",
            dropped="6",
            socket="7 bytes wait, the client does not read",
            subscriptions="8",
        ),
        "  QoS 1  a/#",
        r"  QoS 2  b\r",
    ]
    assert "socket         7 bytes wait\n" in as_text(HERE | {"reads": True})


@pytest.mark.parametrize(
    ("client_id", "options"),
    [
        ("", ["id="]),
        ("a/b&c=d", ["id=a%2Fb%26c%3Dd"]),
        ("x" * 60, ["id=" + "x" * 60]),
        ("x" * 61, ["id=" + "x" * 60, "id=x"]),
        ("厨" * 121, ["id=" + "%E5%8E%A8" * 60, "id=" + "%E5%8E%A8" * 60, "id=%E5%8E%A8"]),
    ],
)
def test_an_identifier_is_asked_for_in_options_of_sixty_characters(
    client_id: str, options: list[str]
) -> None:
    """An option of CoAP's Uri-Query has 255 bytes at most (RFC 7252, section 5.10)."""
    assert query("id", client_id).split("&") == options
