"""Messages to a topic of an ntfy server (docs.ntfy.sh/publish, "Publish as JSON")."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from alerts.record import AlertRecord
from alerts.text import body, is_urgent, title
from alerts.ways.http_post import HttpServer

_URGENT, _NORMAL, _LOW = 5, 3, 2
_MESSAGE_BYTES: Final = 4_000
"""A longer message of ntfy's becomes an attachment, which its server may not take."""


class NtfyWay:
    """Sends alerts to a topic.

    Args:
        server: the root of an ntfy server.
        topic: of it.
        token: lets in; None where nobody asks for one.
        link: gives that by which an alert is taken on; None where there is none.

    """

    def __init__(
        self,
        server: HttpServer,
        topic: str,
        token: str | None,
        link: Callable[[AlertRecord], str] | None = None,
    ) -> None:
        self._server = server
        self._topic = topic
        self._token = token
        self._link = link

    def take(self, records: Sequence[AlertRecord]) -> None:
        """Publish the records as one message of ntfy."""
        is_over = all(one.change == "cleared" for one in records)
        message = {
            "topic": self._topic,
            "title": title(records),
            "message": body(records, self._link).encode()[:_MESSAGE_BYTES].decode(errors="ignore"),
            "priority": _URGENT if is_urgent(records) else _LOW if is_over else _NORMAL,
            "tags": ["white_check_mark" if is_over else "warning"],
        }
        headers = {"Content-Type": "application/json"}
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        self._server.post(msgspec.json.encode(message), headers)
