"""Figures of the last look of a gateway's alerts, and of how alerts stand. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from alerts.state import WayState
from gateway.alerting.judging import SeenByGateway
from light_dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AlertFigures:
    """Numbers of alerts, members and the machine, for `/metrics`.

    Attributes:
        seen: by the last look; None before there was one.
        standing: how many alerts stand that somebody was told of, by rule and severity: each rule
            that holds is there.
        ways: by name.

    """

    seen: SeenByGateway | None
    standing: Mapping[tuple[str, str], int]
    ways: Mapping[str, WayState]
