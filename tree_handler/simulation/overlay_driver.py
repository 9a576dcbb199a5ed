"""Overlays of a simulated gateway: the shell around the production core."""

from __future__ import annotations

import math
from collections.abc import Mapping

from tree_handler.overlays.overlays import Overlays, Say
from tree_handler.routing.interest import Interest
from tree_handler.simulation.gateway import Gateway
from tree_handler.simulation.network import Network
from tree_handler.simulation.overlay_checks import OverlayChecks


class OverlayDriver:
    """Feeds the overlays of one life of a gateway, and does what they ask for.

    Args:
        gateway: whose they are.
        overlays: the core.
        checks: is told of what overlays do.
        network: what is sent over.

    """

    def __init__(
        self,
        gateway: Gateway,
        overlays: Overlays,
        checks: OverlayChecks,
        network: Network,
    ) -> None:
        self.overlays = overlays
        self._gateway = gateway
        self._network = network
        self._checks = checks
        self._told_links: set[int] = set()
        self._timer = gateway.timer(self._due)
        self._measure_s = -math.inf

    def records_changed(self, records: Mapping[str, Interest]) -> None:
        """Take in what all gateways tell of themselves."""
        self.overlays.records_changed(records, self._gateway.now)
        self.carry_out()

    def receive(self, link: int, message: bytes) -> None:
        """Take in what a neighbour says."""
        self.overlays.receive(link, message, self._gateway.now)
        self.carry_out()

    def follow(self) -> None:
        """Take in which links there are now, and now and then what they cost."""
        now, ends = self._gateway.now, self._gateway.ends
        for link in sorted(self._told_links - ends.keys()):
            self._told_links.discard(link)
            self.overlays.link_down(link, now)
        for link, end in ends.items():
            if link not in self._told_links:
                self._told_links.add(link)
                self.overlays.link_up(link, end.peer.host.gateway_id, now)
        if now >= self._measure_s:
            self._measure_s = now + self._gateway.tree.parameters.hello_s
            for neighbour in self._gateway.tree.neighbours():
                if neighbour.rtt_ms is not None:
                    self.overlays.measured(neighbour.link, neighbour.rtt_ms, now)
        self.carry_out()

    def carry_out(self) -> None:
        """Do what the overlays ask for, and set their timer."""
        ends = self._gateway.ends
        for action in self.overlays.take_actions():
            if isinstance(action, Say) and action.link in ends:
                self._checks.said(action.message)
                self._network.send(ends[action.link], action.message)
        self._checks.look_at(self._gateway.gateway_id, ends, self.overlays)
        self._timer.set(self.overlays.next_timer())

    def _due(self, now: float) -> None:
        self.overlays.handle_timer(now)
        self.follow()
