"""Costs of changes, look-ups and requests in a simulated fleet at peace.

Beside what was chosen stands what else could have been: heads that ask their own, and digests
that heads alone keep. Both are calculated, over the same tree, with the sizes that were seen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

from gateway.coap.fleet_directory.kept import FRESH_S
from gateway.tools.directory_simulation.node import ACTUATOR, DirectoryNode
from gateway.tools.directory_simulation.world import SETTLE_S, DirectoryOptions, DirectoryWorld
from light_dataclasses import dataclass
from resource_directory.digest import AFTER_S
from resource_directory.link_format import WebLink
from tree_handler.remote.resource import ResourceRequest, ResourceResponse

STEP_S: Final = 0.005
PATIENCE_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of one operation.

    Attributes:
        gateways: in the fleet.
        what: was done.
        messages: over links, each counted on each link.
        octets: of them.
        seconds: of virtual time until it was done.
        found: links, or answers.
        head: messages that the busiest head put on links.
        others: those that the busiest of all others did.

    """

    gateways: int
    what: str
    messages: int
    octets: int
    seconds: float
    found: int
    head: int
    others: int


def measure(gateways: int, seed: int = 1) -> Iterator[Cost]:
    """Measure a fleet.

    Args:
        gateways: how many.
        seed: of the fleet.

    """
    world = DirectoryWorld(DirectoryOptions(seed, gateways))
    world.fleet.run(SETTLE_S)
    asker = a_leaf(world)
    far = distances(world, asker.record.id)
    changed = world.nodes[max(able(world), key=lambda name: (far[name], name))]
    yield _change(world, changed)
    for asked in (
        ("scope=group",),
        ("scope=domain",),
        ("scope=all",),
        ("scope=all", "rt=new-kind"),
        ("scope=all", "count=20"),
    ):
        yield _look_up(world, asker, asked)
        world.fleet.run(FRESH_S + STEP_S)
    yield _many(world, asker)
    yield from _instead(world, asker, changed.record.id)


def a_leaf(world: DirectoryWorld) -> DirectoryNode:
    """Return a gateway of a group that heads nothing and has one link that forwards, if there is
    one."""
    heads = world.fleet.heads()
    nodes = [world.nodes[name] for name in able(world)]
    found = [node for node in nodes if node.record.id not in heads and node.record.group] or nodes
    return min(found, key=lambda node: len(node.gateway.forwarding))


def able(world: DirectoryWorld) -> list[str]:
    """Return the gateways whose directories are asked."""
    return sorted(name for name, node in world.nodes.items() if node.record.capability > 0)


def _cost(
    world: DirectoryWorld, what: str, begin: Callable[[list[int]], None], at_least_s: float = 0.0
) -> Cost:
    messages, octets, load = (
        world.messages.total(),
        world.octets.total(),
        Counter(world.load),
    )
    began_s, found = world.now, list[int]()
    begin(found)
    world.fleet.run(at_least_s)
    while not found and world.now < began_s + PATIENCE_S:
        world.fleet.run(STEP_S)
    seconds = world.now - began_s
    spent = world.load - load
    heads = world.fleet.heads()
    return Cost(
        len(world.nodes),
        what,
        world.messages.total() - messages,
        world.octets.total() - octets,
        seconds,
        found[0] if found else 0,
        max((spent[name] for name in heads), default=0),
        max((count for name, count in spent.items() if name not in heads), default=0),
    )


def _change(world: DirectoryWorld, node: DirectoryNode) -> Cost:
    def begin(found: list[int]) -> None:
        endpoint = f"{node.record.id}.{10**6}"
        node.register(endpoint, [WebLink(f"/{endpoint}", (("rt", "new-kind"),))], 10**5)
        world.ledger.registered(node.record.id, endpoint, world.now, world.now + 10**5)
        found.append(1)

    return _cost(world, "a new kind of device", begin, at_least_s=AFTER_S + 2.0)


def _look_up(world: DirectoryWorld, node: DirectoryNode, asked: tuple[str, ...]) -> Cost:
    def begin(found: list[int]) -> None:
        world.look_up(node, *asked, told=lambda links: found.append(len(links)))

    return _cost(world, "look-up " + " ".join(asked), begin)


def _many(world: DirectoryWorld, node: DirectoryNode) -> Cost:
    def begin(found: list[int]) -> None:
        def done(answers: list[tuple[str, ResourceResponse | None]]) -> None:
            found.append(sum(response is not None for _, response in answers))

        node.ask_many(("*", "*"), ResourceRequest("GET", ACTUATOR), done)

    return _cost(world, "a request to all (256 at most)", begin)


# -- what else could have been -------------------------------------------------------------------


def distances(world: DirectoryWorld, start: str) -> dict[str, int]:
    """Return links from a gateway to each other one, over the tree."""
    found, front = {start: 0}, [start]
    for at in front:
        gateway = world.nodes[at].gateway
        for link in gateway.forwarding:
            other = gateway.ends[link].peer.host.gateway_id
            if other not in found:
                found[other] = found[at] + 1
                front.append(other)
    return found


def _instead(world: DirectoryWorld, asker: DirectoryNode, changed: str) -> Iterator[Cost]:
    """Yield a look-up of all through heads; a change and a look-up with digests at group heads
    alone."""
    question, answer, empty = _sizes(world, asker)
    hierarchy = asker.members.hierarchy()
    able = {one.id: one for one in asker.members if one.capability > 0}
    above = {
        name: hierarchy.group_heads.get((one.domain, one.group))
        or hierarchy.domain_heads.get(one.domain)
        or hierarchy.root
        for name, one in able.items()
    }
    heads = sorted({head for head in above.values() if head is not None})
    far = {head: distances(world, head) for head in heads}
    own = distances(world, asker.record.id)
    load = Counter[str]()
    messages = octets = 0
    for head in heads:
        members = [one for one, of in above.items() if of == head]
        hops = [far[head].get(one, 0) for one in members]
        messages += 2 * (sum(hops) + own.get(head, 0))
        octets += sum(hops) * (question + answer)
        octets += own.get(head, 0) * (question + len(members) * (answer - empty) + empty)
        load[head] = 2 * len(members)
    yield Cost(
        len(world.nodes),
        "look-up scope=all through heads (calculated)",
        messages,
        octets,
        0.0,
        0,
        max(load.values()),
        0,
    )
    to_head = far[above[changed] or changed][changed]
    digest = to_head * len(asker.record.encode())
    what = "a new kind, digests at heads alone (calculated)"
    yield Cost(len(world.nodes), what, to_head, digest, 0.0, 0, 0, 0)
    ways = sum(own.get(head, 0) for head in heads) + own[changed]
    what = "look-up of a new kind, digests at heads alone (calculated)"
    yield Cost(len(world.nodes), what, 2 * ways, ways * (question + empty), 0.0, 0, 0, 0)


def _sizes(world: DirectoryWorld, asker: DirectoryNode) -> tuple[int, int, int]:
    """Return bytes of a question, of an answer with links, and of an answer with none, on one
    link."""
    neighbour = asker.gateway.ends[asker.gateway.forwarding[0]].peer.host.gateway_id
    sizes = []
    for query in ((), ("rt=no-such-kind",)):
        before = Counter(world.octets)
        path = ("rd-lookup", "res")
        request = ResourceRequest("GET", path, (*query, "count=200", "page=0"), None, 40)
        asker.ask(neighbour, request, lambda _: None)
        world.fleet.run(1.0)
        spent = world.octets - before
        sizes += [spent["query"], spent["reply"] or spent["answer"]]
    return sizes[0], sizes[1], sizes[3]
