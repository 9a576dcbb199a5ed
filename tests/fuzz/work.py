"""The cost of parsers for each byte that came, and a search for the input that costs most.

`PARSERS` has each that reads what others send, with its largest input and the shapes that cost it
most. `lines` counts what Python carries out, which is the same on each machine; what a line of C
does it can't see, and so `searched` measures time as well.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterable
from dataclasses import dataclass

from coap_parsers import COAP
from link_parsers import MEMBERS
from mqtt_parsers import HTTP, MQTT
from parser_cost import Parser, seconds
from trust_parsers import TRUST

PARSERS: dict[str, Parser] = {**MQTT, **HTTP, **COAP, **MEMBERS, **TRUST}

CHANGED = ", changed"


@dataclass(slots=True)
class Slowest:
    """The input of a parser that cost most.

    Attributes:
        shape: what it was made of.
        data: it.
        cost_s: processor time.

    """

    shape: str = ""
    data: bytes = b""
    cost_s: float = 0.0

    @property
    def ns_per_byte(self) -> float:
        return self.cost_s * 1e9 / max(1, len(self.data))


def searched(parser: Parser, for_s: float, chance: random.Random) -> Slowest:
    """Begin with the shapes at their largest, and go on with changes of what cost most."""
    slowest = Slowest()
    for name, shape in parser.shapes.items():
        _tried(parser, name, shape(parser.most_bytes), slowest)
    end_s = time.monotonic() + for_s
    while time.monotonic() < end_s:
        name = f"{slowest.shape.removesuffix(CHANGED)}{CHANGED}"
        _tried(parser, name, _changed(slowest.data, chance), slowest)
    return slowest


def _tried(parser: Parser, name: str, data: bytes, slowest: Slowest) -> None:
    data = data[: parser.most_bytes]
    cost_s = seconds(parser.run, data)
    if cost_s > 1.1 * slowest.cost_s:
        # Once more: a page fault or another process may have been in the way.
        cost_s = min(cost_s, seconds(parser.run, data))
        if cost_s > slowest.cost_s:
            slowest.shape, slowest.data, slowest.cost_s = name, data, cost_s


def _changed(data: bytes, chance: random.Random) -> bytes:
    """A piece of it again, elsewhere, cut out, or a byte of it another one."""
    at, size = chance.randrange(len(data) or 1), 1 << chance.randrange(12)
    piece, where = data[at : at + size], chance.randrange(len(data) or 1)
    match chance.randrange(4):
        case 0:
            return data[:where] + piece * chance.randrange(1, 64) + data[where:]
        case 1:
            return data[:at] + data[at + size :]
        case 2:
            return data[:where] + piece + data[where + len(piece) :]
        case _:
            return data[:at] + bytes((chance.randrange(256),)) + data[at + 1 :]


def report(for_s: float, names: Iterable[str] = PARSERS, seed: int = 1) -> list[str]:
    """Search for each parser's worst cost; return the lines of a table, the dearest first."""
    chance = random.Random(seed)
    names = list(names)
    found = [(name, searched(PARSERS[name], for_s / len(names), chance)) for name in names]
    found.sort(key=lambda one: -one[1].cost_s)
    return [
        f"{name:32} {PARSERS[name].who:9} {slowest.cost_s * 1e3:9.2f} ms "
        f"{slowest.ns_per_byte:8.0f} ns/byte {len(slowest.data):9} bytes  {slowest.shape}"
        for name, slowest in found
    ]
