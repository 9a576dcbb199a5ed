"""Sources are asked for an answer by the first segment of its path, in order."""

from __future__ import annotations

import pytest

from coap_engine import codes
from coap_engine.message import CoapPeer, CoapRequest, CoapResponse, Option
from coap_engine.option_numbers import REQUEST_ID
from gateway.coap.path_router import PathRouter
from gateway.coap.responders import RespondTo

NAME: Option = (REQUEST_ID, b"\0name")


class Source:
    """One that serves paths, or requests with a name if it has no segments."""

    def __init__(self, *segments: bytes, named: bool = False) -> None:
        self.segments = None if named else frozenset(segments)

    def answer(self, _request: CoapRequest, _peer: CoapPeer, _now: float) -> CoapResponse | None:
        return None

    def observe(self, _exchange: int, _request: CoapRequest, _respond: RespondTo) -> bool:
        return False

    def ended(self, exchange: int) -> None:
        """It tells nothing."""


ROOT, SENSORS, BOTH = Source(b""), Source(b"sensors"), Source(b"rd", b"sensors")
NAMED, ALSO_NAMED = Source(named=True), Source(named=True)


def path(*segments: bytes) -> tuple[Option, ...]:
    return tuple((11, one) for one in segments)


@pytest.mark.parametrize(
    ("options", "asked"),
    [
        ((), [ROOT]),
        (path(b""), [ROOT]),
        (path(b"sensors"), [SENSORS, BOTH]),
        (path(b"sensors", b"rd"), [SENSORS, BOTH]),
        (path(b"rd", b"sensors"), [BOTH]),
        (path(b"status"), []),
        (((4, b"e"), (6, b""), *path(b"rd"), (15, b"x")), [BOTH]),
        (((4, b"rd"), (12, b"rd"), (15, b"rd")), [ROOT]),
        ((*path(b"rd"), NAME), [NAMED, ALSO_NAMED, BOTH]),
        ((NAME,), [NAMED, ALSO_NAMED, ROOT]),
        ((*path(b"status"), (17, b""), NAME), [NAMED, ALSO_NAMED]),
    ],
)
def test_those_are_asked_who_serve_the_first_segment_and_before_them_who_knows_names(
    options: tuple[Option, ...], asked: list[Source]
) -> None:
    router = PathRouter([SENSORS, NAMED, BOTH, ROOT, ALSO_NAMED])
    assert router.of(CoapRequest(codes.GET, options)) == asked
