"""A line of an audit trail, for people."""

from __future__ import annotations

import datetime

from gateway.base.event_log.audit import AuditedChange
from gateway.base.printable import printable


def line(change: AuditedChange) -> str:
    """Return a change as one line: when, who, what and of what."""
    local = datetime.datetime.fromtimestamp(change.time_s, datetime.UTC).astimezone()
    rows = [
        f"{name}={_text(value)}" for name, value in change.of.items() if value not in (None, [])
    ]
    text = "  ".join([change.who, change.what, *rows])
    return f"{local:%Y-%m-%d %H:%M:%S}  {printable(text)}"


def _text(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)
