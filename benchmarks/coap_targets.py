"""The targets of CoAP and the Resource Directory, and whether figures meet them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.coap_servers import AIOCOAP, AIOCOAP_RD, LIBCOAP, LIBCOAP_RD
from benchmarks.comparison import shown


@dataclass(frozen=True, slots=True)
class Target:
    """One target of the cases whose names have all of `words`.

    Attributes:
        words: parts of a case's name.
        peer: beside which `bound` is the least ratio of ours to it; "": `bound` is of ours
            alone, and its figure stays below.
        bound: the ratio, or the figure in the case's unit.

    """

    words: tuple[str, ...]
    peer: str
    bound: float

    def is_of(self, case: str) -> bool:
        """Return whether it is a target of a case."""
        return all(word in case for word in self.words)

    def verdict(self, ours: float, peer: float = 1.0) -> str:
        """Return the target and whether these figures meet it."""
        if self.peer:
            met = ours / peer >= self.bound
            return f"target {shown(self.bound)} x: {'met' if met else 'MISSED'}"
        return f"target < {shown(self.bound)}: {'met' if ours < self.bound else 'MISSED'}"


TARGETS = (
    Target(("GET of", "plain"), LIBCOAP, 0.5),
    Target(("GET of", "plain"), AIOCOAP, 8.0),
    Target(("GET of", "DTLS"), LIBCOAP, 0.4),
    Target(("handshakes with a key",), LIBCOAP, 0.5),
    Target(("handshakes with certificates",), LIBCOAP, 2.0),
    Target(("handshakes resumed, of a key",), LIBCOAP, 0.5),
    Target(("registrations with", "link"), AIOCOAP_RD, 10.0),
    Target(("look-ups", "100,000"), AIOCOAP_RD, 1000.0),
    Target(("one look-up at a time", "100,000"), "", 1000.0),
    Target(("registrations of 4 attributes",), LIBCOAP_RD, 1.0),
    Target(("RSS", "100,000"), "", 400.0),
    Target(("threads",), "", 10.0),
)
"""Of the figures of a compiled build. The issue sets no ratio for registrations of 4 attributes
beside coap-rd: 1.0 is what "beside" says, and stands here to be seen."""


def of_case(case: str, peer: str) -> Iterator[Target]:
    """Return the targets of a case beside a peer; "" for those of ours alone."""
    return (target for target in TARGETS if target.peer == peer and target.is_of(case))
