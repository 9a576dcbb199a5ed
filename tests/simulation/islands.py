"""Two trees that join at the worst moment: what closes a ring if one guard of the tree is off."""

from __future__ import annotations

from tree_handler.simulation.network import Edge
from tree_handler.simulation.runs import Options, Simulation


class TwoIslands(Simulation):
    """Two trees, gw-a over gw-v over gw-u and gw-b over gw-z over gw-y, and two cut bridges."""

    bridges = (("gw-u", "gw-z"), ("gw-v", "gw-y"))

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        capabilities = {"gw-a": 9.0, "gw-b": 8.0, "gw-v": 2.0, "gw-u": 2.0, "gw-y": 2.0}
        for number, gateway_id in enumerate([*capabilities, "gw-z"]):
            self.add(gateway_id, capabilities.get(gateway_id, 2.0), f"10.0.0.{number + 1}")
        within = (("gw-a", "gw-v"), ("gw-v", "gw-u"), ("gw-b", "gw-z"), ("gw-z", "gw-y"))
        self.edge = {pair: Edge(pair, 0.002, 0.0) for pair in (*within, *self.bridges)}
        self.network.edges = list(self.edge.values())
        for bridge in self.bridges:
            self.network.cut(self.edge[bridge])
        self.start_all()
        self.clock.run(3.0)

    def join_while_news_are_held_up(self) -> None:
        """Join the islands when the better root has died, but gw-u and gw-y can't know it yet."""
        self.network.silence(self.edge["gw-v", "gw-u"], 0)
        self.network.silence(self.edge["gw-z", "gw-y"], 0)
        self.gateways.pop("gw-a").stop(silently=False)
        self.clock.run(self.clock.now + 1.1)
        for bridge in self.bridges:
            self.network.heal(self.edge[bridge])
        self.clock.run(self.clock.now + 0.3)
