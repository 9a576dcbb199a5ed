"""The command `hedgerow drain`: its words on a gateway that is taken out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def what_stays(state: Mapping[str, Any]) -> Iterator[str]:
    """Say what stays on the disk of a gateway that is drained.

    Args:
        state: of its drain, as its status tells it.

    """
    if state["left_on_disk"]:
        yield f"{state['left_on_disk']} messages for clients that are away"
    for who, count in sorted(state["owed"].items()):
        yield f"{count} messages for {who}, which is out of reach,"


def what_is_left(told: Mapping[str, Any]) -> str:
    """Say what keeps a gateway from being drained.

    Args:
        told: its status.

    """
    state = told["drain"]
    if told["mqtt_clients"]:
        return f"{told['mqtt_clients']} clients are still connected"
    if state["uncommitted"]:
        return f"{state['uncommitted']} bytes are not in its log yet"
    if not state["lacking"]:
        return "it has no neighbour to hand its messages to"
    lacking = {who: count for who, count in state["lacking"].items() if count != 0}
    return ", ".join(
        f"{peer} has not told what it has" if count is None else f"{peer} lacks {count} messages"
        for peer, count in sorted((state["owed"] | lacking).items())
    )
