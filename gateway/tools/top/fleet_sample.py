"""Sample of all gateways, told through one of them, and what it says of the time in between."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gateway.tools.top.history import GatewayHistory
from gateway.tools.top.sample import GatewayAnswers, read
from light_dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FleetAnswers:
    """The answers of a fleet's gateways at one time.

    Attributes:
        at_s: when, on a steady clock.
        time_s: when, in seconds since 1970.
        gateways: the status of each, by its id.
        silent: why one of them told nothing, by its id.

    """

    at_s: float
    time_s: float
    gateways: Mapping[str, Any]
    silent: Mapping[str, str]


class FleetHistory:
    """The last samples of all gateways that one knows.

    Attributes:
        gateways: the history of each, by its id; of one that does not answer the last that it told.
        failure: why the gateway that is asked does not answer; empty if it does.
        failed_at_s: when it did not for the first time, on a steady clock.

    """

    def __init__(self) -> None:
        self.gateways: dict[str, GatewayHistory] = {}
        self.failure = ""
        self.failed_at_s = 0.0

    def take(self, answers: FleetAnswers) -> None:
        """Take what was told; who is neither there nor known any more is forgotten."""
        self.failure = ""
        known = {*answers.gateways, *answers.silent}
        for gone in self.gateways.keys() - known:
            del self.gateways[gone]
        for gateway_id in sorted(known):
            history = self.gateways.setdefault(gateway_id, GatewayHistory())
            status = answers.gateways.get(gateway_id)
            told = GatewayAnswers(at_s=answers.at_s, time_s=answers.time_s, status=status)
            sample = read(told)
            if sample is None:
                why = answers.silent.get(gateway_id, "") or "it told nothing that can be read"
                history.missed(why, answers.at_s)
            else:
                history.take(sample)

    def missed(self, why: str, at_s: float) -> None:
        """The gateway that is asked did not answer: nothing is known of any."""
        if not self.failure:
            self.failed_at_s = at_s
        self.failure = why
        for history in self.gateways.values():
            history.missed(why, at_s)
