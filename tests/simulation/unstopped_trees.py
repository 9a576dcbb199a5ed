"""Spanning trees that never have a link stop, so that rings form."""

from __future__ import annotations

from tree_handler.spanning.actions import Discard, SpanningAction
from tree_handler.spanning.spanning_tree import SpanningTree

_taken = SpanningTree.take_actions


def all_but_to_stop(tree: SpanningTree) -> list[SpanningAction]:
    """Return what a tree wants done, in place of its `take_actions`."""
    return [action for action in _taken(tree) if not isinstance(action, Discard)]
