"""Filter of the playbooks: which names of variables look like ours, misspelt."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

import yaml

NEAR = 0.88
"""The likeness from which on one name is taken for the other, misspelt (difflib's ratio)."""
PLAYBOOKS_OWN = frozenset(
    (
        *("site_roles", "hedgerow_backups", "hedgerow_restore", "hedgerow_at_once", "hedgerow_ask"),
        *("hedgerow_roll_over", "hedgerow_is_lost", "hedgerow_own_variables", "hedgerow_ring"),
        *("hedgerow_reboot_window", "hedgerow_backup_key", "hedgerow_without_backup"),
        "hedgerow_trial_arguments",
    )
)
"""Variables that playbooks read and that are no role's."""


class FilterModule:
    """Called by Ansible."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filter by the name that playbooks use."""
        return {"hedgerow_misspelt": misspelt}


def misspelt(names: Iterable[str], own: Iterable[str] = ()) -> list[str]:
    """Say of each name that is nearly one of ours which one that is, ready for a message.

    Args:
        names: of all variables that a host has.
        own: names of the operator's own, which are not looked at.

    """
    known = _known()
    # The role gateway refuses by itself all of its prefix that it has not.
    others = ("_", "ansible_", "gateway_")
    unknown = {name for name in names if not name.startswith(others)}
    found = []
    for name in sorted(unknown - known - set(own)):
        for near in get_close_matches(name, known, 1, NEAR):
            # A name that goes on behind ours is another word, not a slip of a finger.
            if not (name.startswith(f"{near}_") or near.startswith(f"{name}_")):
                found.append(f"{name} (is {near} meant?)")
    return found


@cache
def _known() -> frozenset[str]:
    roles = Path(__file__).resolve().parents[1] / "roles"
    names = set(PLAYBOOKS_OWN)
    for specs in roles.glob("*/meta/argument_specs.yml"):
        for spec in yaml.safe_load(specs.read_text())["argument_specs"].values():
            names.update(spec.get("options", {}))
    return frozenset(names)
