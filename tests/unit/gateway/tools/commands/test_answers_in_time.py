"""Commands wait long enough for what a gateway says of a driver, or of others, that are late."""

from __future__ import annotations

import pytest

from gateway.coap.fleet_directory import searches
from gateway.coap.remote import gathering
from gateway.sensors.sampler import CALL_S
from gateway.tools import cli

LATEST_S = max(CALL_S, searches.GATHER_S, gathering.GATHER_S)


@pytest.mark.parametrize(
    "words",
    [
        ["get", "/sensors/pump"],
        ["put", "/sensors/pump", "1"],
        ["call", "post", "/sensors/pump"],
        ["observe", "/sensors/pump"],
        ["discover"],
        ["rd", "list"],
        ["sensors", "list"],
    ],
    ids=lambda words: words[0],
)
def test_a_command_waits_longer_than_the_gateway_that_it_asks(words: list[str]) -> None:
    assert cli.command_line().parse_args(words).timeout > LATEST_S
