"""A POST of JSON, signed as the specification "Standard Webhooks" says (standardwebhooks.com)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
from collections.abc import Callable, Sequence

import msgspec

from alerts.record import AlertRecord
from alerts.text import batch_id, title
from alerts.ways.http_post import HttpServer


class WebhookWay:
    """Sends alerts to a webhook.

    Args:
        server: which.
        secret: signs what is sent; None for no signature.
        clock: seconds since 1970.

    """

    def __init__(
        self, server: HttpServer, secret: bytes | None, clock: Callable[[], float] = time.time
    ) -> None:
        self._server = server
        self._secret = secret
        self._clock = clock

    def take(self, records: Sequence[AlertRecord]) -> None:
        """Post the records as JSON, signed if there is a secret."""
        body = msgspec.json.encode(
            {
                "title": title(records),
                "site": records[0].site if len({one.site for one in records}) == 1 else "",
                "alerts": [
                    {"delivery_id": one.delivery_id, **msgspec.to_builtins(one)} for one in records
                ],
            }
        )
        name, at = batch_id(records), str(int(self._clock()))
        headers = {
            "Content-Type": "application/json",
            "webhook-id": name,
            "webhook-timestamp": at,
        }
        if self._secret is not None:
            headers["webhook-signature"] = f"v1,{signature(self._secret, name, at, body)}"
        self._server.post(body, headers)


def signature(secret: bytes, name: str, at: str, body: bytes) -> str:
    """Return the HMAC-SHA256 of a message in base64.

    Args:
        secret: both ends have it.
        name: the header ``webhook-id``.
        at: the header ``webhook-timestamp``.
        body: what is sent.

    """
    signed = hmac.new(secret, f"{name}.{at}.".encode() + body, hashlib.sha256).digest()
    return base64.b64encode(signed).decode()
