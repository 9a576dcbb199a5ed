"""Limits on what a gateway asks of others, executes for them and tells them."""

from __future__ import annotations

from light_dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class QueryLimits:
    """Of requests to and from other gateways.

    Attributes:
        asked: requests that wait for their answers.
        asked_of_peer: those of one local asker.
        subscriptions: resources of other gateways that are observed.
        executed: requests of others that are carried out at one time.
        executed_of_gateway: those of one gateway.
        told: subscriptions of others.
        told_of_gateway: those of one gateway.
        targets: gateways that are asked by one request to many.
        targets_at_once: of them at one time.
        targets_bytes: bodies that are gathered for it; those of who answers after that are left
            out.
        cached: answers of other gateways that are kept.
        cached_bytes: what they take.

    """

    asked: int = 256
    asked_of_peer: int = 64
    subscriptions: int = 1_024
    executed: int = 256
    executed_of_gateway: int = 128
    told: int = 2_048
    told_of_gateway: int = 1_024
    targets: int = 1_024
    targets_at_once: int = 16
    targets_bytes: int = 1 << 20
    cached: int = 4_096
    cached_bytes: int = 8 << 20


DEFAULT_LIMITS = QueryLimits()
