"""The tree as the broker of a gateway sees it that listens to its own clients, too."""

from __future__ import annotations

from collections.abc import Sequence

from gateway.broker.hooks import Tree
from gateway.log.commits import Committed
from gateway.process.readings import Readings
from tree_handler.batch import Row


class OverheardTree:
    """Has what the broker's own clients publish heard by sensors that listen, and by actuators.

    Args:
        tree: takes the messages.
        readings: hears of them: of those that the log is to have when it has them.

    """

    def __init__(self, tree: Tree, readings: Readings) -> None:
        self._tree = tree
        self._readings = readings

    @property
    def carries_unlogged(self) -> bool:
        """Whether somebody wants them: a command may be of QoS 0."""
        return self._readings.is_listening or self._tree.carries_unlogged

    def publish_all(
        self, logged: Sequence[Row], unlogged: Sequence[Row], done: Committed | None
    ) -> None:
        """Take the messages of one turn; see `Tree`."""
        passed_on = unlogged if unlogged and self._tree.carries_unlogged else ()
        if not self._readings.is_listening:
            self._tree.publish_all(logged, passed_on, done)
            return

        def told(first: int, error: OSError | None) -> None:
            if error is None:
                self._readings.hear(logged)
            if done is not None:
                done(first, error)

        self._readings.hear(unlogged)
        self._tree.publish_all(logged, passed_on, told if logged else done)
