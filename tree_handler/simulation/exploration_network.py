"""A small network as a value: its gateways' trees, what is under way, and what can happen to it.

Each step makes a new `ExploredState` from an old one, so that `exploration` can go back. A state is
the production class `SpanningTree` of each gateway, pickled, and what is under way between them.
What a gateway makes of an event depends on its own tree alone, and the orders of events are many
more than the trees that they lead to: each step of a tree is taken once and remembered.
Links break with an error that each end meets in its own time; a gateway that dies closes its
links behind what it sent. Each gateway has a clock of its own, which its timers alone move.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tree_handler.simulation.exploration_state import (
    CLOSED,
    EventBudget,
    ExploredState,
    InvariantError,
    Node,
    Wire,
    astray,
    check_forest,
)
from tree_handler.spanning.bpdu import Bpdu
from tree_handler.spanning.spanning_tree import (
    Discard,
    Drop,
    Forward,
    Identity,
    Parameters,
    Send,
    SpanningAction,
    SpanningTree,
)

PARAMETERS = Parameters()
PATIENCE_HELLOS = 20
"""Hello intervals within which a network that is left alone must have one tree."""

ExplorationEvent = tuple[str, int, int]
_Met = tuple[str, int, object]
"""An event that a tree meets: its kind, its link, and its content."""
_Step = tuple[Node, tuple[SpanningAction, ...]]


class ExploredNetwork:
    """A network of gateways that are all linked along ``pairs``, and the events possible in it.

    Args:
        pairs: the indexes of gateways that can be linked; the lower index first.

    """

    def __init__(self, pairs: tuple[tuple[int, int], ...]) -> None:
        self.pairs = pairs
        self._steps: dict[tuple[bytes, float, _Met], _Step] = {}

    def cold(self, gateways: int, budget: EventBudget) -> ExploredState:
        """Return the state in which all gateways have just started and all links were just made."""
        nodes = tuple(
            _started(Identity(f"gw-{name}", 1, float(gateways - i), f"10.0.0.{i + 1}"))
            for i, name in zip(range(gateways), "abcdefgh", strict=False)
        )
        state = ExploredState(nodes, (), budget)
        for pair in self.pairs:
            state = self._link(state, pair)
        return state

    def settled(self, gateways: int, budget: EventBudget) -> ExploredState:
        """Return the network once one tree has formed."""
        return replace(self.calm(self.cold(gateways, budget)), budget=budget)

    def events(self, state: ExploredState) -> Iterator[ExplorationEvent]:
        """Yield all that can happen next."""
        budget, linked = state.budget, set()
        for i, wire in enumerate(state.wires):
            linked.add(wire.ends) if wire.whole else None
            for side in (0, 1):
                if wire.coming[side]:
                    yield "arrives", i, side
            if budget.breaks and wire.whole:
                yield "breaks", i, 0
        for i, node in enumerate(state.nodes):
            if node.tree:
                if budget.timers:
                    yield "timer", i, 0
                if budget.deaths:
                    yield "dies", i, 0
            elif budget.starts:
                yield "starts", i, 0
        if budget.links:
            for i, pair in enumerate(self.pairs):
                if pair not in linked and all(state.nodes[end].tree for end in pair):
                    yield "linked", i, 0

    def after(self, state: ExploredState, event: ExplorationEvent) -> ExploredState:
        """Return what comes of an event.

        Raises:
            InvariantError: a ring is live.

        """
        kind, i, side = event
        budget = state.budget
        match kind:
            case "arrives":
                return self._arrives(state, i, side)
            case "breaks":
                budget = replace(budget, breaks=budget.breaks - 1)
                broken = _broken(state.wires[i])
                wires = (*state.wires[:i], *broken, *state.wires[i + 1 :])
                return replace(state, wires=wires, budget=budget)
            case "timer":
                budget = replace(budget, timers=budget.timers - 1)
                return self._timer(replace(state, budget=budget), i)
            case "dies":
                budget = replace(budget, deaths=budget.deaths - 1)
                nodes = _with(state.nodes, i, Node(state.nodes[i].identity))
                wires = tuple(w for wire in state.wires for w in _bereft(wire, i))
                return ExploredState(nodes, wires, budget)
            case "starts":
                budget = replace(budget, starts=budget.starts - 1)
                own = state.nodes[i].identity
                again = _started(replace(own, boot_epoch=own.boot_epoch + 1))
                return replace(state, nodes=_with(state.nodes, i, again), budget=budget)
            case _:
                budget = replace(budget, links=budget.links - 1)
                return self._link(replace(state, budget=budget), self.pairs[i])

    def calm(self, state: ExploredState) -> ExploredState:
        """Let everything arrive and timers fire in their time, until there is one tree for long.

        Raises:
            InvariantError: a ring is live, or there is no one tree in the end.

        """
        base = [node.now for node in state.nodes]
        end_s = PATIENCE_HELLOS * PARAMETERS.hello_s
        while True:
            arriving = next((e for e in self.events(state) if e[0] == "arrives"), None)
            if arriving is not None:
                state = self.after(state, arriving)
                continue
            due = [
                (n.revived().next_timer() - base[i], i) for i, n in enumerate(state.nodes) if n.tree
            ]
            if not due or min(due)[0] > end_s:
                break
            state = self._timer(state, min(due)[1])
        wrong = astray(state)
        if wrong:
            raise InvariantError(f"invariant 2: {wrong}")
        return state

    # -- within --------------------------------------------------------------------------------

    def _link(self, state: ExploredState, pair: tuple[int, int]) -> ExploredState:
        number = 1 + max((wire.number for wire in state.wires), default=0)
        state = replace(state, wires=(*state.wires, Wire(pair, number)))
        for end, other in (pair, pair[::-1]):
            peer_id = state.nodes[other].identity.gateway_id
            state = self._step(state, end, ("link up", number, peer_id))
        return state

    def _arrives(self, state: ExploredState, i: int, side: int) -> ExploredState:
        wire = state.wires[i]
        bpdu, *later = wire.coming[side]
        wire = replace(wire, coming=_with(wire.coming, side, tuple(later)))
        met: _Met = ("BPDU", wire.number, bpdu)
        if bpdu is CLOSED:
            met = ("link down", wire.number, None)
            wire = replace(wire, open=_with(wire.open, side, False))
        wires = _with(state.wires, i, wire) if any(wire.open) else _without(state.wires, i)
        return self._step(replace(state, wires=wires), wire.ends[side], met)

    def _timer(self, state: ExploredState, i: int) -> ExploredState:
        return self._step(state, i, ("timer", 0, None))

    def _step(self, state: ExploredState, i: int, met: _Met) -> ExploredState:
        """Have gateway ``i`` meet something, and do what its tree asks for."""
        node = state.nodes[i]
        key = (node.tree, node.now, met)
        step = self._steps.get(key)
        if step is None:
            step = self._steps[key] = _met(node, met)
        after, actions = step
        wires = state.wires
        if actions:
            changed = list(wires)
            for action in actions:
                _do(action, i, changed)
            wires = tuple(changed)
        return ExploredState(_with(state.nodes, i, after), wires, state.budget)


def _started(identity: Identity) -> Node:
    return Node.of(identity, SpanningTree(identity, PARAMETERS, 0.0), 0.0)


def _met(node: Node, met: _Met) -> _Step:
    tree, now = node.revived(), node.now
    match met:
        case ("timer", _, _):
            now = max(now, tree.next_timer())
            tree.handle_timer(now)
        case ("BPDU", link, Bpdu() as bpdu):
            tree.receive(link, bpdu, now)
        case ("link up", link, str() as peer_id):
            tree.link_up(link, peer_id, now)
        case (_, link, _):
            tree.link_down(link, now)
    actions = tuple(tree.take_actions())
    return Node.of(node.identity, tree, now), actions


def _do(action: SpanningAction, i: int, wires: list[Wire]) -> None:
    if not isinstance(action, (Send, Forward, Discard, Drop)):
        return
    at = next(k for k, wire in enumerate(wires) if wire.number == action.link)
    wire = wires[at]
    side = wire.ends.index(i)
    match action:
        case Send(_, bpdu):
            wires[at] = _sent(wire, side, bpdu)
        case Forward():
            wires[at] = replace(wire, forwards=_with(wire.forwards, side, True))
            if wires[at].live:
                check_forest(wires)
        case Discard():
            wires[at] = replace(wire, forwards=_with(wire.forwards, side, False))
        case Drop():
            closed = replace(_sent(wire, side, CLOSED), open=_with(wire.open, side, False))
            closed = replace(closed, coming=_with(closed.coming, side, ()))
            if any(closed.open):
                wires[at] = closed
            else:
                del wires[at]


def _sent(wire: Wire, side: int, bpdu: Bpdu | None) -> Wire:
    other = 1 - side
    if not (wire.whole and wire.open[other]):
        return wire
    return replace(wire, coming=_with(wire.coming, other, (*wire.coming[other], bpdu)))


def _broken(wire: Wire) -> Iterator[Wire]:
    """Yield a connection whose ends are still to learn that it is broken; what was under way is
    lost."""
    first, second = [(CLOSED,) if is_open else () for is_open in wire.open]
    yield replace(wire, whole=False, coming=(first, second))


def _bereft(wire: Wire, dead: int) -> Iterator[Wire]:
    """Yield what a connection is when the gateway at one of its ends has died.

    Nothing if it is none.
    """
    if dead not in wire.ends:
        yield wire
        return
    side = wire.ends.index(dead)
    if wire.open[1 - side]:
        left = _sent(wire, side, CLOSED)
        left = replace(left, open=_with(left.open, side, False))
        yield replace(left, coming=_with(left.coming, side, ()))


def _with(values: Any, at: int, value: object) -> Any:
    return (*values[:at], value, *values[at + 1 :])


def _without(values: Any, at: int) -> Any:
    return (*values[:at], *values[at + 1 :])
