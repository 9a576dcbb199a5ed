"""Links are measured for overlays once in a hello interval, and who is root is looked at then."""

from __future__ import annotations

import math
from pathlib import Path

from memory_link import lone_node

from gateway.log.message_log import MessageLog
from gateway.node.links.overlay_part import OverlayPart
from tree_handler.overlays.overlays import Settings

HELLO_S = 2.0


async def test_looks_are_a_hello_interval_apart_and_the_first_is_due_at_once(
    tmp_path: Path,
) -> None:
    log = MessageLog(tmp_path)
    log.open()
    node = lone_node(log, hello_s=HELLO_S)
    now = 100.0
    part = OverlayPart(node, Settings(), now)
    looks: list[float] = []
    at_s = 0.0
    for _ in range(2):
        part.tell_of_looks(lambda: looks.append(at_s))
    for at_s in (0.0, HELLO_S - 0.125, HELLO_S, 2 * HELLO_S - 0.125, 2 * HELLO_S):
        part.handle_timer(now + at_s)
    assert looks == [0.0, 0.0, HELLO_S, HELLO_S, 2 * HELLO_S, 2 * HELLO_S]
    assert part.next_timer() == math.inf
    await node.stop()
    log.close()
