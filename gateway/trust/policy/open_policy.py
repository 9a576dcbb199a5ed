"""The open policy: `access.anonymous`, and no file that says otherwise."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from gateway.trust.policy.built_in import ADMIN, READER, ROLES
from gateway.trust.policy.policy import PolicyRules
from gateway.trust.policy.rule import EVERYBODY

PLACE: Final = "access.anonymous"

OPEN: Final = PolicyRules(
    rules=tuple(
        replace(rule, who=EVERYBODY, place=PLACE)
        for role in (ADMIN, READER)  # who reads $SYS is a reader
        for rule in ROLES[role].rules
    )
)
"""The rules."""
