"""Report of a node on itself: for `/status`, the command line and the collector's status file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Protocol

from gateway.log.message_log import MessageLog
from gateway.node.links.direct_part import DirectPart
from gateway.node.links.exchange import Exchange
from gateway.node.links.link import Link
from gateway.node.links.locator_part import LocatorPart
from tree_handler.batch import NOTE_PREFIX
from tree_handler.replication import epochs_over
from tree_handler.replication.replication import Replication
from tree_handler.spanning.spanning_tree import SpanningTree


class ReportedNode(Protocol):
    """A node as its report sees it: `gateway.node.links.node.TreeNode`."""

    last_change: tuple[float, str]

    @property
    def tree(self) -> SpanningTree:
        """The node's spanning tree, which tells root, cost and neighbours."""

    @property
    def replication(self) -> Replication:
        """Return the replication of the node."""

    @property
    def links(self) -> Mapping[int, Link]:
        """Those that are up."""

    @property
    def exchange(self) -> Exchange:
        """Return the exchange over the node's links."""

    @property
    def locator(self) -> LocatorPart:
        """Return the part that knows which gateways are reached."""

    @property
    def direct(self) -> DirectPart:
        """Return the part for messages to one gateway alone."""

    @property
    def log(self) -> MessageLog:
        """The message log, whose length, damage and losses are told."""


def report(node: ReportedNode, now: float) -> dict[str, Any]:
    """Root, cost, neighbours and counters, ready for JSON.

    Args:
        node: whose status it is.
        now: the loop's time, which says how long ago neighbours were heard.

    """
    changed_at_s, why = node.last_change
    tree, replication = node.tree, node.replication
    parent = None if tree.parent_link is None else node.links.get(tree.parent_link)
    return {
        "root": tree.root_id,
        "cost_ms": tree.cost_ms,
        "hops": tree.hops,
        "reached": sorted(node.locator.reached),
        "parent": parent.peer_id if parent else None,
        "neighbours": _neighbours(node, now),
        "last_change": {"time_s": changed_at_s, "why": why},
        "counters": asdict(replication.counters) | dict(tree.counters) | node.exchange.counters,
        "direct": asdict(node.direct.counters),
        "have": {
            f"{origin}/{epoch}": numbers.count()
            for (origin, epoch), numbers in replication.have.items()
            if not origin.startswith(NOTE_PREFIX)
        },
        "over": {
            name: [f"{first}-{last}" for first, last in epochs]
            for name, epochs in epochs_over.all_over(replication.have)
        },
        "log_bytes": node.log.length,
        "log_damaged_bytes": node.log.damaged_bytes,
        "log_lost_messages": node.log.lost_messages,
    }


def _queue(node: ReportedNode, number: int) -> dict[str, int]:
    """Return what waits for a link, in it and in the log, and what was not waited with."""
    link = node.links[number]
    return {
        "queued_bytes": link.queued_bytes,
        "window_bytes": link.window.size,
        "backlog_bytes": node.exchange.backlog_bytes(number),
        "dropped": link.dropped,
        "sent_bytes": link.window.sent,
        "received_bytes": link.received_bytes,
    }


def _neighbours(node: ReportedNode, now: float) -> list[dict[str, Any]]:
    return [
        {
            "id": n.peer_id,
            "address": node.links[n.link].address,
            "role": n.role.name.lower(),
            "forwarding": n.link in node.tree.forwarding,
            "rtt_ms": n.rtt_ms,
            "capability": n.peer_capability,
            "heard_s_ago": None if n.last_heard is None else round(now - n.last_heard, 3),
            **_queue(node, n.link),
        }
        for n in node.tree.neighbours()
        if n.link in node.links
    ]
