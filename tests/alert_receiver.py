"""A webhook that keeps what it is told of alerts, and may refuse every third time."""

from __future__ import annotations

import json
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

REFUSES_EVERY = 3


class AlertReceiver:
    """A webhook that notes the deliveries of each alert and change.

    Args:
        refuses_every: so often it does not take what comes; 0: never.

    Attributes:
        told: names of deliveries of each alert and change. One that was handed over when its sender
            was killed may have come again, by the same name.
        messages: what was said last, by rule and change.

    """

    def __init__(self, refuses_every: int = REFUSES_EVERY) -> None:
        self.url = ""
        self._refuses_every = refuses_every
        self.told: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        self.messages: dict[tuple[str, str], str] = {}
        self._asked = 0
        self._lock = threading.Lock()

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Serve at a port of loopback, named in `url`."""
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                self.send_response(204 if receiver.takes(json.loads(body)) else 503)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # its name
                """Say nothing."""

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            self.url = f"http://127.0.0.1:{server.server_port}/alerts"
            threading.Thread(target=server.serve_forever, daemon=True).start()
            try:
                yield
            finally:
                server.shutdown()

    def takes(self, body: dict[str, Any]) -> bool:
        """Note what came, unless it is refused."""
        with self._lock:
            self._asked += 1
            if self._refuses_every and self._asked % self._refuses_every == 0:
                return False
            for one in body["alerts"]:
                self.told[one["alert"], one["change"]].add(one["delivery_id"])
                self.messages[one["rule"], one["change"]] = one["message"]
            return True

    def changes(self, rule: str) -> Counter[str]:
        """Return how often each change of a rule's alerts was told; copies count once."""
        with self._lock:
            told = [
                (change, len(names))
                for (alert, change), names in self.told.items()
                if alert.startswith(f"{rule}:")
            ]
        found = Counter[str]()
        for change, times in told:
            found[change] += times
        return found
