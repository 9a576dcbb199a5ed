"""Plan of a gateway's alerts: their terms and routes, and from where on something is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from alerts.terms import AlertRoute, RuleTerms
from gateway.alerting.judging import AlertLimits
from gateway.alerting.rules import RULES
from light_dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertPlan:
    """All that a configuration says of alerts, but for who is reached how.

    Attributes:
        terms: by rule; those that are not there raise nothing.
        limits: from where on something is wrong.
        ways: the names of the ways out.
        renewed: those of them whose receiver forgets what it is not told again and again.
        routes: which alerts go which ways.
        look_s: how often it is looked.
        gather_s: the first record waits so long for others of its site.
        remind_s: what stands is told again so often; 0: never.

    """

    terms: Mapping[str, RuleTerms] = field(default_factory=lambda: dict(RULES))
    limits: AlertLimits = field(default_factory=AlertLimits)
    ways: tuple[str, ...] = ()
    renewed: tuple[str, ...] = ()
    routes: tuple[AlertRoute, ...] = ()
    look_s: float = 10.0
    gather_s: float = 10.0
    remind_s: float = 86_400.0
