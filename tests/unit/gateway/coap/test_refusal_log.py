"""Refusals of CoAP's peers are one line of the log a second, and are told to the last."""

from __future__ import annotations

import logging

import pytest
from held_timers import HeldTimers

from gateway.coap.refusals import RefusalLog


async def test_what_was_refused_since_the_last_line_is_told_with_how_much_it_is_in_all(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("gateway.coap.refusals.LOOK_S", 3_600.0)
    looks = HeldTimers(monkeypatch, 3_600.0)
    counts = {"echo": 5, "requests_host": 0}
    log = RefusalLog(lambda: counts)
    assert looks.count == 0

    def told() -> list[str]:
        lines = [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]
        caplog.clear()
        return lines

    for _ in range(2):
        log.look_soon()
        assert looks.count == 1
    looks.run_out()
    assert told() == [], "what was refused before is told already"
    counts["echo"] += 2
    counts["bytes_full"] = 1
    log.look_soon()
    looks.run_out()
    assert told() == ["CoAP refused echo 2 (7 so far), bytes_full 1 (1 so far)"]
    counts["requests_host"] += 3
    log.look_soon()
    log.close()
    assert looks.count == 0
    assert told() == ["CoAP refused requests_host 3 (3 so far)"]
    log.close()
    assert told() == []
