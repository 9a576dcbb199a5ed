"""A line of an audit trail says when, who, what and of what, and nothing that a terminal obeys."""

from __future__ import annotations

import time

from gateway.base.event_log.audit import AuditedChange
from gateway.tools.commands.audit_text import line


def test_a_change_is_one_line_without_what_is_empty() -> None:
    at_s = 1_700_000_000.75
    of = {"name": "gw-a\n", "roles": ["gateway", "guest"], "address": None, "others": []}
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at_s))
    change = AuditedChange(at_s, "olga", "certificate issued", of | {"number": 0})
    assert line(change) == (
        rf"{at}  olga  certificate issued  name=gw-a\n  roles=gateway,guest  number=0"
    )
    assert line(AuditedChange(at_s, "olga", "x")) == f"{at}  olga  x"
