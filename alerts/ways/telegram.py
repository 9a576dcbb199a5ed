"""Messages of a bot to a chat of Telegram (core.telegram.org/bots/api, "sendMessage")."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from alerts.record import AlertRecord
from alerts.text import body, is_urgent, title
from alerts.ways.http_post import HttpServer

URL: Final = "https://api.telegram.org"
TOKEN: Final = re.compile(r"\d{1,20}:[A-Za-z0-9_-]{1,100}")
"""The token of a bot: its number, and a secret."""
_CHARACTERS: Final = 4_000
"""Of a message; Telegram takes 4,096 UTF-16 units, and nearly all that is said here takes one."""


class TelegramWay:
    """Sends alerts to a chat, as plain text: nothing in it is a link, a name or a command.

    Args:
        server: the root of the bots' API.
        token: of the bot, as `TOKEN` is.
        chat: number or ``@name`` of it.
        link: gives that by which an alert is taken on; None where there is none.

    """

    def __init__(
        self,
        server: HttpServer,
        token: str,
        chat: str,
        link: Callable[[AlertRecord], str] | None = None,
    ) -> None:
        self._server = server
        self._token = token
        self._chat = chat
        self._link = link

    def take(self, records: Sequence[AlertRecord]) -> None:
        """Send the records as one message of the bot."""
        message = {
            "chat_id": self._chat,
            "text": f"{title(records)}\n\n{body(records, self._link)}"[:_CHARACTERS],
            "disable_notification": not is_urgent(records),
            "link_preview_options": {"is_disabled": True},
        }
        headers = {"Content-Type": "application/json"}
        self._server.post(msgspec.json.encode(message), headers, f"/bot{self._token}/sendMessage")
