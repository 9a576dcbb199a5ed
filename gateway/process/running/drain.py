"""Takes a gateway out of its fleet without losing a message.

First nothing new comes in: the gateway tells the others that it is draining, so that it heads
nothing in the hierarchy, closes the broker to clients, who go to another gateway, and reads its
sensors no more. Then it waits until each neighbour over a link that forwards has said that it has
all that this gateway's log holds, and in routed mode each gateway within reach that it has what is
for it. From then on nothing is here alone, and the process may end. Only what waits for durable
sessions, or for gateways that are out of reach, stays on its disk, and is counted.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from gateway.base.watched_tasks import WatchedTasks
from gateway.broker.data_plane import DataPlane
from gateway.node.links.node import TreeNode
from light_dataclasses import dataclass

LOOK_S = 0.1
"""The interval between looks whether the neighbours have everything."""
LINGER_S = 3.0
"""The drained gateway answers for so long before it ends, so that who asked learns of it."""


@dataclass(frozen=True, slots=True)
class DrainProgress:
    """The progress of a drain.

    Attributes:
        since_s: wall-clock time of its begin.
        lacking: how many messages each neighbour still lacks; None until it has told.
        owed: how many messages gateways have not said they have, where messages are routed.
        uncommitted: accepted messages' bytes that are not in the log yet.
        left_on_disk: messages that wait for durable sessions, and end with this disk.
        is_over: nothing is here alone.

    """

    since_s: float
    lacking: dict[str, int | None]
    owed: dict[str, int]
    uncommitted: int
    left_on_disk: int
    is_over: bool

    def as_json(self) -> dict[str, Any]:
        """For ``/status``."""
        return {name: getattr(self, name) for name in self.__slots__}


class Drain:
    """The drain of one gateway; it happens once in a process's life.

    Args:
        node: the gateway's node.
        core: its broker.
        over: called `LINGER_S` after nothing is here alone.
        owed: what gateways are owed where messages are routed; see `Accounts.owed`.
        watched: looks again after a look that failed.

    """

    def __init__(
        self,
        node: TreeNode,
        core: DataPlane,
        over: Callable[[], None],
        owed: Callable[[], dict[str, int]],
        watched: WatchedTasks,
    ) -> None:
        self._watched = watched
        self._owed = owed
        self._node = node
        self._core = core
        self._first: list[Callable[[], None]] = []
        self._over = over
        self._since_s = 0.0
        self._is_over = False
        self._task: asyncio.Task[None] | None = None

    def begins_with(self, call: Callable[[], None]) -> None:
        """Have this done when a drain begins, after what was named before: one part leaves."""
        self._first.append(call)

    def start(self) -> None:
        """Begin, or go on."""
        if self._task is None:
            self._since_s = time.time()
            self._core.close_to_clients()
            for call in self._first:
                call()
            self._task = self._watched.start("drain", self._run)

    @property
    def state(self) -> DrainProgress | None:
        """Return the progress of the drain, None before it has begun."""
        if self._task is None:
            return None
        return DrainProgress(
            self._since_s,
            self._lacking(),
            self._owed(),
            self._core.commit_queue.waiting_bytes,
            sum(session.outgoing.backlog.count for session in self._core.sessions.values()),
            self._is_over,
        )

    async def stop(self) -> None:
        """Wait no longer."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            if self._has_handed_over():
                break
        self._is_over = True
        await asyncio.sleep(LINGER_S)
        self._over()

    def _has_handed_over(self) -> bool:
        if self._core.sessions.connected or self._core.commit_queue.waiting_bytes:
            return False
        if self._owed().keys() & self._node.locator.reached:
            return False
        lacking = self._lacking()
        return bool(lacking) and not any(count != 0 for count in lacking.values())

    def _lacking(self) -> dict[str, int | None]:
        node = self._node
        return {
            node.links[link].peer_id: node.replication.repair.lacking(link)
            for link in node.tree.forwarding
            if link in node.links
        }
