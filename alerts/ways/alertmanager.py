"""Alerts for a Prometheus Alertmanager, by its API v2 (``POST /api/v2/alerts``).

It forgets an alert whose time has ended, and one that it was not told of again for long. So what
stands is given an end that is far off, and each reminder moves it.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Final

import msgspec

from alerts.record import AlertRecord
from alerts.text import plain, stamp
from alerts.ways.http_post import HttpServer

STANDS_US: Final = 4 * 86_400_000_000
"""So long it stands without being told of again: longer than between two reminders."""


class AlertmanagerWay:
    """Sends alerts to an Alertmanager.

    Args:
        server: its root.
        user: logs in; empty for nobody.
        password: of that user.

    """

    def __init__(self, server: HttpServer, user: str = "", password: str = "") -> None:
        self._server = server
        self._user = user
        self._password = password

    def take(self, records: Sequence[AlertRecord]) -> None:
        """Post the newest record of each alert to Alertmanager."""
        headers = {"Content-Type": "application/json"}
        if self._user:
            proof = base64.b64encode(f"{self._user}:{self._password}".encode()).decode()
            headers["Authorization"] = f"Basic {proof}"
        newest = {one.alert: one for one in records}  # of one alert the last word counts
        body = msgspec.json.encode([_alert(one) for one in newest.values()])
        self._server.post(body, headers, "/api/v2/alerts")


def _alert(one: AlertRecord) -> dict[str, object]:
    named = one.fields | {"job": "hedgerow"}
    named["alertname"] = named.pop("rule")
    # It takes an end that is not before the start alone.
    ends_us = max(one.at_us, one.since_us + 1_000_000)
    return {
        "labels": {name: plain(value) for name, value in named.items() if value},
        "annotations": {"summary": plain(one.message), "description": plain(one.what_to_do)},
        "startsAt": stamp(one.since_us),
        "endsAt": stamp(ends_us if one.change == "cleared" else one.at_us + STANDS_US),
    }
