"""Orders of people about alerts: acknowledge or close one, silence some, try a way out. Pure."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from alerts.matcher import AlertMatcher
from gateway.alerting.gateway_alerts import GatewayAlerts


class AlertOrderError(ValueError):
    """An order that can't be carried out; the message says which field and why."""


class AckOrder(msgspec.Struct, tag_field="do", tag="ack", forbid_unknown_fields=True):
    """Take an alert on."""

    alert: str
    note: str = ""


class CloseOrder(msgspec.Struct, tag_field="do", tag="close", forbid_unknown_fields=True):
    """End an alert of which nobody will see the end."""

    alert: str


class SilenceOrder(msgspec.Struct, tag_field="do", tag="silence", forbid_unknown_fields=True):
    """Let nobody be told of the alerts that all patterns fit, for a time."""

    for_s: float
    match: dict[str, str] = {}
    begins_us: int = 0
    note: str = ""


class UnsilenceOrder(msgspec.Struct, tag_field="do", tag="unsilence", forbid_unknown_fields=True):
    """End a silence."""

    number: int


class TrialOrder(msgspec.Struct, tag_field="do", tag="test", forbid_unknown_fields=True):
    """Send a trial alert on some ways out, or on all."""

    ways: list[str] = []


_Order = AckOrder | CloseOrder | SilenceOrder | UnsilenceOrder | TrialOrder
_decoder: Final = msgspec.json.Decoder(_Order)


class _Acknowledgement(msgspec.Struct, forbid_unknown_fields=True):
    alert: str
    note: str = ""


_acknowledgement_decoder: Final = msgspec.json.Decoder(_Acknowledgement)


def acknowledgement(said: bytes) -> bytes:
    """Return the order that a message on the gateway's topic means.

    Args:
        said: an alert's name, or JSON with ``alert`` and, if there is one, ``note``.

    Raises:
        AlertOrderError: it is neither.

    """
    try:
        if said.lstrip().startswith(b"{"):
            found = _acknowledgement_decoder.decode(said)
        else:
            found = _Acknowledgement(said.decode().strip())
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise AlertOrderError(f"no name of an alert, and no JSON: {error}") from error
    return msgspec.json.encode(AckOrder(found.alert, found.note))


def carry_out(
    alerts: GatewayAlerts, data: bytes, who: str, gateway: str, site: str
) -> dict[str, Any]:
    """Do what somebody orders, and return what came of it.

    Args:
        alerts: of the gateway.
        data: the order, as JSON.
        who: orders it.
        gateway: whose alerts they are.
        site: where that stands.

    Raises:
        AlertOrderError: it is no order, or can't be carried out.
        AlertNotFoundError: what it names is not there.

    """
    try:
        order = _decoder.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise AlertOrderError(str(error)) from error
    try:
        return _done(alerts, order, who, gateway, site)
    except ValueError as error:  # of a matcher or a silence
        raise AlertOrderError(str(error)) from error


def _done(
    alerts: GatewayAlerts, order: _Order, who: str, gateway: str, site: str
) -> dict[str, Any]:
    match order:
        case AckOrder():
            alerts.acknowledge(order.alert, who, order.note)
            return {"alert": order.alert}
        case CloseOrder():
            alerts.close(order.alert)
            return {"alert": order.alert}
        case SilenceOrder():
            matcher = AlertMatcher.of(order.match)
            made = alerts.silence(matcher, order.for_s, order.begins_us, who, order.note)
            return {"number": made.number, "match": str(matcher), "ends_us": made.ends_us}
        case UnsilenceOrder():
            alerts.end_silence(order.number)
            return {"number": order.number}
        case TrialOrder():
            there = tuple(alerts.state.ways)
            if unknown := [way for way in order.ways if way not in there]:
                known = ", ".join(there) or "none at all"
                raise AlertOrderError(f"{unknown[0]!r}: the configuration has {known}")
            if not there:
                raise AlertOrderError("no way out is configured: docs/alerts.md has them")
            return {"ways": alerts.test(gateway, site, order.ways)}
