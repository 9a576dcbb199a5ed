"""The latest life of another gateway: the newer of its own record's and of the one in reach."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gateway.coap.remote.exchange import RemoteExchange
from gateway.coap.remote.parts import RemoteParts
from tree_handler.members.hierarchy import MemberRecord, Membership
from tree_handler.remote.query import RemoteQueries
from tree_handler.routing.locator import GatewayLocation


class ReachOfOne:
    """Finds a gateway under one boot epoch, or not at all."""

    def __init__(self, epoch: int | None) -> None:
        self._epoch = epoch

    def epoch_of(self, _gateway_id: str) -> int | None:
        return self._epoch

    def way_to(self, _gateway_id: str) -> GatewayLocation | None:
        return None

    def tell_of_moves(self, _told: Callable[[float], None]) -> None:
        """Nobody moves."""


@pytest.mark.parametrize(
    ("recorded", "in_reach", "latest"),
    [(3, 5, 5), (5, 3, 5), (5, None, 5), (None, 5, 5), (None, None, 0)],
)
async def test_the_latest_life_is_the_newer_of_the_record_and_the_reach(
    recorded: int | None, in_reach: int | None, latest: int
) -> None:
    members = Membership()
    if recorded is not None:
        assert members.update(MemberRecord("gw-b", recorded, 1, "", "", "127.0.0.1", 1883))
    unused: Any = None
    exchange = RemoteExchange(RemoteQueries("gw-a", 1), lambda *_: None, unused)
    parts = RemoteParts("gw-a", members, unused, exchange, unused, ReachOfOne(in_reach))
    assert parts.life_of("gw-b") == ("gw-b", latest)
