"""Messages to a channel of a team's chat by its incoming webhook: Slack, Discord or Teams.

What other machines said stands in them as text: it calls nobody, and is no link.

- Slack: docs.slack.dev/messaging/sending-messages-using-incoming-webhooks; three characters are
  escaped, as "Formatting message text" has it.
- Discord: docs.discord.com/developers/resources/webhook, "Execute Webhook"; nobody is mentioned.
- Teams: learn.microsoft.com, "Create incoming webhooks with Workflows"; runs of text in an adaptive
  card are not read as Markdown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from alerts.record import AlertRecord
from alerts.text import body, title
from alerts.ways.http_post import HttpServer

_CHARACTERS: Final = {"slack": 12_000, "discord": 1_900, "teams": 12_000}
"""Of a message."""


class TeamChatWay:
    """Sends alerts to a channel.

    Args:
        server: its webhook.
        service: one of `alerts.terms.CHAT_SERVICES`.
        link: gives that by which an alert is taken on; None where there is none.

    """

    def __init__(
        self,
        server: HttpServer,
        service: str,
        link: Callable[[AlertRecord], str] | None = None,
    ) -> None:
        self._server = server
        self._service = service
        self._link = link

    def take(self, records: Sequence[AlertRecord]) -> None:
        """Post the records as one message of the chat service."""
        text = f"{title(records)}\n\n{body(records, self._link)}"[: _CHARACTERS[self._service]]
        message = _MESSAGES[self._service](text)
        self._server.post(msgspec.json.encode(message), {"Content-Type": "application/json"})


def _slack(text: str) -> Mapping[str, Any]:
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return {"text": escaped, "mrkdwn": False, "unfurl_links": False, "unfurl_media": False}


def _discord(text: str) -> Mapping[str, Any]:
    # Three backticks end a block of code; one of ours is none of theirs.
    quoted = text.replace("```", "'''")
    return {"content": f"```\n{quoted}\n```", "allowed_mentions": {"parse": []}}


def _teams(text: str) -> Mapping[str, Any]:
    blocks = [
        {"type": "RichTextBlock", "inlines": [{"type": "TextRun", "text": line or " "}]}
        for line in text.splitlines()
    ]
    card = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": blocks,
    }
    content_type = "application/vnd.microsoft.card.adaptive"
    attachment = {"contentType": content_type, "contentUrl": None, "content": card}
    return {"type": "message", "attachments": [attachment]}


_MESSAGES: Final[Mapping[str, Callable[[str], Mapping[str, Any]]]] = {
    "slack": _slack,
    "discord": _discord,
    "teams": _teams,
}
