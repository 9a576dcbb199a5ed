"""A look-up without an answer yet knows of a change, by its request and by no equal one."""

from __future__ import annotations

from coap_engine import codes
from coap_engine.message import CoapRequest
from gateway.coap.directory.waiting_watches import WaitingWatches
from tests.held_objects import held_objects


def test_who_waits_is_noted_as_stale_by_its_watch_and_taken_out_once() -> None:
    waiting, requests = WaitingWatches(), [CoapRequest(codes.GET) for _ in range(3)]
    nothing = held_objects(waiting)
    waiting.note([1, 2])
    for watch, request in enumerate(requests, 1):
        waiting.add(request, watch)
    waiting.note(iter([7, 2]))
    found = [waiting.take(request) for request in requests]
    assert [(one.watch, one.is_stale) for one in found if one is not None] == [
        (1, False),
        (2, True),
        (3, False),
    ]
    waiting.note([1, 2, 3])
    assert waiting.take(requests[0]) is None
    assert held_objects(waiting) == nothing


def test_an_equal_request_waits_for_nothing() -> None:
    waiting = WaitingWatches()
    waiting.add(CoapRequest(codes.GET), 1)
    assert waiting.take(CoapRequest(codes.GET)) is None
