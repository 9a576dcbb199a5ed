"""The rules by which a gateway raises alerts about itself and its neighbours. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from alerts.terms import RuleTerms

_PAGE: Final = "docs/what-to-do-when.md"
_SILENT: Final = f"{_PAGE}#a-gateway-is-silent"
_LINK: Final = f"{_PAGE}#there-is-no-link"
_DISK: Final = f"{_PAGE}#the-disk-is-full"
_CLOCK: Final = f"{_PAGE}#the-clock-is-wrong"
_REFUSED: Final = f"{_PAGE}#a-client-is-refused"
_ALERT: Final = f"{_PAGE}#a-gateway-raises-an-alert"


def _critical(
    after_s: float, clears_after_s: float, what_to_do: str, *, hides: bool = False
) -> RuleTerms:
    return RuleTerms(
        severity="critical",
        after_s=after_s,
        clears_after_s=clears_after_s,
        what_to_do=what_to_do,
        hides=hides,
    )


def _warning(after_s: float, clears_after_s: float, what_to_do: str) -> RuleTerms:
    return RuleTerms(
        severity="warning", after_s=after_s, clears_after_s=clears_after_s, what_to_do=what_to_do
    )


DISK_FULL: Final = "disk-full"
DISK_READ_ONLY: Final = "disk-read-only"
DISK_WEARING: Final = "disk-wearing"
LOG_REFUSES: Final = "log-refuses"
DISK_WORN: Final = "disk-worn"
HOT: Final = "hot"
THROTTLED: Final = "throttled"
UNDER_VOLTAGE: Final = "under-voltage"
CLOCK_NOT_KEPT: Final = "clock-not-kept"
CLOCK_JUMPED: Final = "clock-jumped"
CERTIFICATE_ENDING: Final = "certificate-ending"
CERTIFICATE_ENDED: Final = "certificate-ended"
LIMIT_NEAR: Final = "limit-near"
MESSAGES_DROPPED: Final = "messages-dropped"
MESSAGES_LOST: Final = "messages-lost"
NEIGHBOUR_AWAY: Final = "neighbour-away"
NO_LINK: Final = "no-link"
GATEWAY_AWAY: Final = "gateway-away"
REFUSED_LOGINS: Final = "refused-logins"
PART_FAILING: Final = "part-failing"
RELEASE_RETURNED: Final = "release-returned"
ROOT_FLAPPING: Final = "root-flapping"
SENSOR_SILENT: Final = "sensor-silent"
SENSOR_STUCK: Final = "sensor-stuck"
SENSOR_RANGE: Final = "sensor-range"

RULES: Final[Mapping[str, RuleTerms]] = {
    DISK_READ_ONLY: _critical(0, 60, f"copy what is readable, and take a new card: {_DISK}"),
    LOG_REFUSES: _critical(10, 30, f"messages are refused until it is mended: {_DISK}"),
    MESSAGES_LOST: _critical(0, 3_600, f"see what the log says of the disk: {_DISK}"),
    DISK_FULL: _critical(30, 60, f"make room: {_DISK}"),
    GATEWAY_AWAY: _critical(120, 30, f"hedgerow status HOST, then {_SILENT}", hides=True),
    NO_LINK: _critical(60, 30, f"cable, switch, firewall? {_LINK}"),
    PART_FAILING: _critical(30, 60, f"journalctl -u hedgerow says more: {_ALERT}"),
    CERTIFICATE_ENDED: _critical(0, 0, f"is the clock right? Then renew it: {_ALERT}"),
    NEIGHBOUR_AWAY: _warning(120, 30, f"hedgerow status says why there is no link: {_LINK}"),
    MESSAGES_DROPPED: _warning(0, 900, f"hedgerow clients names whose queue is full: {_ALERT}"),
    LIMIT_NEAR: _warning(60, 60, f"hedgerow status names what is used: {_ALERT}"),
    REFUSED_LOGINS: _warning(0, 900, f"the log names from where: {_REFUSED}"),
    CERTIFICATE_ENDING: _warning(0, 0, f"hedgerow keys renew, copy, reload: {_ALERT}"),
    CLOCK_NOT_KEPT: _warning(900, 60, f"timedatectl: is an NTP server reached? {_CLOCK}"),
    CLOCK_JUMPED: _warning(0, 3_600, f"see what sets the clock: {_CLOCK}"),
    UNDER_VOLTAGE: _warning(0, 600, f"take a better supply and a shorter cable: {_ALERT}"),
    HOT: _warning(60, 60, f"give it air, or a heat sink: {_ALERT}"),
    THROTTLED: _warning(60, 600, f"give it air, and a better supply: {_ALERT}"),
    DISK_WORN: _warning(0, 0, f"make a backup, and take a new card: {_ALERT}"),
    DISK_WEARING: _warning(0, 60, f"find what writes so much on that machine: {_DISK}"),
    ROOT_FLAPPING: _warning(0, 600, f"find what takes its links, or its power: {_LINK}"),
    SENSOR_SILENT: _warning(0, 0, f"hedgerow sensors, and the log, say why: {_ALERT}"),
    SENSOR_STUCK: _warning(0, 0, f"look if it is where it should be, and connected: {_ALERT}"),
    SENSOR_RANGE: _warning(0, 30, f"see to what it measures: {_ALERT}"),
    RELEASE_RETURNED: _warning(0, 0, f"mend it before the next upgrade: {_ALERT}"),
}
"""Their terms, the worst first."""
