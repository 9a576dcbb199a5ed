"""The tree as the broker of a gateway sees it that listens to its own clients, too."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from gateway.broker.hooks import Tree
from gateway.log.commits import Committed
from tree_handler.batch import Row


class TopicListener(Protocol):
    """Hears what this gateway's own clients publish: sensors and actuators, or its page."""

    @property
    def is_listening(self) -> bool:
        """Return whether anything is of interest now."""

    def hear(self, rows: Iterable[Row]) -> None:
        """Take messages."""


class OverheardTree:
    """Has what the broker's own clients publish heard.

    Args:
        tree: takes the messages.
        listener: hears of them: of those that the log is to have when it has them.

    """

    def __init__(self, tree: Tree, listener: TopicListener) -> None:
        self._tree = tree
        self._listener = listener

    @property
    def carries_unlogged(self) -> bool:
        """Whether somebody wants them: a command may be of QoS 0."""
        return self._listener.is_listening or self._tree.carries_unlogged

    def publish_all(
        self, logged: Sequence[Row], unlogged: Sequence[Row], done: Committed | None
    ) -> None:
        """Take the messages of one turn; see `Tree`."""
        passed_on = unlogged if unlogged and self._tree.carries_unlogged else ()
        if not self._listener.is_listening:
            self._tree.publish_all(logged, passed_on, done)
            return

        def told(first: int, error: OSError | None) -> None:
            if error is None:
                self._listener.hear(logged)
            if done is not None:
                done(first, error)

        self._listener.hear(unlogged)
        self._tree.publish_all(logged, passed_on, told if logged else done)
