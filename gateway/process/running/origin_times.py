"""Ages of messages: this gateway's clock, what it knows of others', and its file."""

from __future__ import annotations

from pathlib import Path

from gateway.base.lasting_clock import KernelClocks, LastingClock
from gateway.broker.broker import Memory
from gateway.node.links.clock_part import ClockFile, ClockPart
from gateway.node.links.node import TreeNode
from gateway.node.links.retained_part import RetainedPart
from gateway.node.links.send_times import SendTimes
from gateway.process.state_folder.history import LogHistory
from tree_handler.batch import Epoch
from tree_handler.origin_clocks import OriginClocks


class OriginTimes:
    """The clocks of one gateway process.

    Args:
        own: the gateway's id and boot epoch.
        folder: its state folder.

    Attributes:
        clock: its own, which the broker's recovery has go on from the life before.
        origins: those of all.

    """

    def __init__(self, own: Epoch, folder: Path) -> None:
        self.clock = LastingClock(KernelClocks(), own[1])
        self.origins = OriginClocks(own)
        self._own = own
        self._folder = folder
        self._file = ClockFile(folder, own[0])
        self.origins.load(self._file.take())

    def memory(self, node: TreeNode) -> Memory:
        """Return what the broker's sessions outlive the process in: the node's log is one part."""
        history = LogHistory(node, self._own)
        return Memory(history, self._folder / "broker.sqlite3", self.clock, self.origins)

    def ride_on(self, node: TreeNode, retained: RetainedPart) -> ClockPart:
        """Tell neighbours of clocks from now on: the broker has recovered.

        Args:
            node: on whose links.
            retained: the part that tells what is retained, of which it is then known how long that
                was under way.

        """
        if not self.clock.goes_on:
            self.origins.forget()
        part = ClockPart(node, self.origins, self.clock.now_us, self._file)
        node.add_part(part)
        retained.count_by(SendTimes(node.links, self.origins, self.clock.now_us))
        part.save()
        return part
