"""A file that says on which ways the alerts of the ingest job leave: ``hedgerow ingest --ways``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gateway.alerting.section import AlertsSection
from gateway.alerting.spooled_ways import SpooledWays
from gateway.alerting.ways import open_ways
from gateway.base.path_kind import why_no_folder
from gateway.base.remedies import of_file
from gateway.base.toml.toml_file import ConfigError, Fault, hold
from light_dataclasses import dataclass

FILE_NAME = "alert_ways.json"
OWN_NAME = "ingest"
"""The name of the job towards mail servers and in a syslog."""


@dataclass(frozen=True, slots=True)
class FleetWaysSection:
    """The file: in ``state_dir`` the job keeps what waits, ``[alerts]`` is as of a gateway."""

    state_dir: Path
    alerts: AlertsSection

    def __post_init__(self) -> None:
        hold(self._faults())

    def _faults(self) -> Iterator[Fault]:
        if not self.alerts.ways:
            yield Fault("alerts", "has no way out, such as [alerts.mail]")
        for name in ("mqtt", "ack_url"):
            if getattr(self.alerts, name):
                yield Fault(f"alerts.{name}", "is for a gateway: the job has no listener")
        if any(route.after_s for route in self.alerts.routes):
            why = "has an after_s: alerts of the job are acknowledged in the dashboard, unseen here"
            yield Fault("alerts.routes", why)


def opened(section: FleetWaysSection) -> SpooledWays:
    """Return the ways out; the folder of their state is made if it is missing.

    Args:
        section: of the file.

    Raises:
        ConfigError: a secret, an authority or the state can't be read.

    """
    alerts = section.alerts
    ways = open_ways(alerts, OWN_NAME)
    routes = [one.route for one in alerts.routes]
    if why := why_no_folder(section.state_dir):
        raise ConfigError("state_dir", why)
    try:
        section.state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        return SpooledWays(section.state_dir / FILE_NAME, ways, routes, alerts.gather_s)
    except OSError as error:
        raise ConfigError("state_dir", of_file(error)) from error
