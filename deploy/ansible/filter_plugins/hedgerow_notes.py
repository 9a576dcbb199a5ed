"""Notes that roles made of themselves on a machine (roles/target/tasks/made.yml)."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from typing import Any


def noted(read: Mapping[str, Any], otherwise: Any) -> Any:
    """Return what a note says.

    Args:
        read: the answer of `slurp` for its file, also where it failed.
        otherwise: the answer for a missing note, or one that a power cut emptied: a map or a list.

    """
    try:
        found = json.loads(base64.b64decode(read["content"]))
    except (KeyError, ValueError):
        return otherwise
    # A play gives classes of Ansible's own (from 2.19 on), which no reader of JSON makes.
    kind = dict if isinstance(otherwise, dict) else list
    return found if isinstance(found, kind) else otherwise


class FilterModule:
    """Filters of the playbooks beside this folder."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return each by its name."""
        return {"hedgerow_noted": noted}
