"""Listeners to what happens to clients: each is told all, whatever another one does."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from gateway.base.event_log.counted_lines import CountedLines
from gateway.base.event_log.failures import Failures
from gateway.broker.each_listener import EachListener
from gateway.broker.hooks import Client

CLIENT = Client("c", None, "192.0.2.7", 5)
CALLS: dict[str, tuple[Any, ...]] = {
    "connected": (CLIENT,),
    "disconnected": (CLIENT, "why"),
    "subscribed": (CLIENT, "a/#", 1),
    "unsubscribed": (CLIENT, "a/#"),
}


class Told:
    """Notes what it is told, and fails where it is to."""

    def __init__(self, *, fails: bool) -> None:
        self.fails = fails
        self.calls: list[tuple[Any, ...]] = []

    def _note(self, *call: Any) -> None:
        self.calls.append(call)
        if self.fails:
            raise RuntimeError("a plugin")

    def connected(self, client: Client) -> None:
        self._note("connected", client)

    def disconnected(self, client: Client, why: str) -> None:
        self._note("disconnected", client, why)

    def subscribed(self, client: Client, topic_filter: str, qos: int) -> None:
        self._note("subscribed", client, topic_filter, qos)

    def unsubscribed(self, client: Client, topic_filter: str) -> None:
        self._note("unsubscribed", client, topic_filter)


@pytest.mark.parametrize("call", CALLS)
def test_one_that_fails_is_counted_and_keeps_no_other_from_being_told(
    call: str, caplog: pytest.LogCaptureFixture
) -> None:
    lines = CountedLines(logging.getLogger(__name__), lambda: 0.0)
    listeners = [Told(fails=True), Told(fails=False)]
    getattr(EachListener(listeners, Failures(lines)), call)(*CALLS[call])
    assert [one.calls for one in listeners] == [[(call, *CALLS[call])]] * 2
    kind = "set aside: listener to what happens to clients"
    assert lines.counts == {kind: 1}
    assert caplog.messages == [f"'c' (192.0.2.7): RuntimeError: a plugin: {kind} (1 so far)"]
