"""The alerts of a gateway, as its configuration says."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from gateway.alerting.ways import open_ways
from gateway.base.remedies import of_file
from gateway.coap.operations import alerts as alerts_resource
from gateway.coap.site import GatewaySite
from gateway.home_assistant.commands import REFUSED
from gateway.process.configuration.config import ConfigError, GatewaySettings
from gateway.process.running.alert_sources import AlertSources, MachineEyes
from gateway.process.running.alert_watch import AlertWatch
from gateway.process.running.console_part import ConsolePart
from gateway.process.running.kept_alerts import KeptAlerts, runtime_folder
from gateway.process.running.readings import Readings
from tree_handler.batch import Entry

if TYPE_CHECKING:
    from alerts.ack_link import AckLinks


def links_of(settings: GatewaySettings) -> AckLinks | None:
    """Return what makes the links in mails; None where the configuration has none.

    Raises:
        ConfigError: their key can't be read or written.

    """
    if not settings.alerts.ack_url:
        return None
    from alerts.ack_link import AckLinks  # noqa: PLC0415  # only where it is used
    from gateway.alerting.link_key import link_key  # noqa: PLC0415  # as above

    try:
        key = link_key(settings.gateway.state_dir)
    except OSError as error:
        raise ConfigError("gateway.state_dir", of_file(error)) from error
    return AckLinks(key, settings.alerts.ack_url)


def serve(settings: GatewaySettings, watch: AlertWatch, console: ConsolePart) -> None:
    """Serve links, where there are any and a console.

    Args:
        settings: of the gateway.
        watch: has the alerts.
        console: that is open.

    Raises:
        ConfigError: their key can't be read or written.

    """
    if (links := links_of(settings)) is not None:
        from alerts.ack_link import PATH  # noqa: PLC0415  # only where it is used
        from gateway.process.running.ack_pages import AckPages  # noqa: PLC0415  # as above

        console.serve_below(PATH, AckPages(links, watch).page)


def obey(
    settings: GatewaySettings,
    readings: Readings,
    watch: AlertWatch,
    refused: Callable[[str, str], None],
) -> None:
    """Have alerts acknowledged by messages on a topic, where the gateway has one for them.

    Args:
        settings: of the gateway.
        readings: hear what is published.
        watch: has the alerts.
        refused: is told of a message that can't be obeyed: its kind, and topic with reason.

    """
    mqtt = settings.alerts.mqtt
    if mqtt is None:
        return

    def take(topic: str, payload: bytes) -> None:
        watch.acknowledge_soon(payload, partial(_not_obeyed, refused, topic))

    readings.obey(f"{mqtt.topic}/ack", take)


def _not_obeyed(refused: Callable[[str, str], None], topic: str, why: str) -> None:
    refused(REFUSED, f"{topic}: {why}")


def prepare(
    settings: GatewaySettings,
    sources: AlertSources,
    accept: Callable[[Entry], None],
    site: GatewaySite,
) -> AlertWatch:
    """Make the watch over a gateway, and serve it over CoAP.

    Args:
        settings: of the gateway.
        sources: what is seen of it.
        accept: takes what is published.
        site: has its resources.

    Raises:
        ConfigError: a secret or an authority of a way out can't be read.

    """
    section, own_id = settings.alerts, settings.gateway.id
    topic = None
    if (mqtt := section.mqtt) is not None:
        from gateway.alerting.problem_topic import ProblemTopic  # noqa: PLC0415  # only where it is used

        def below() -> str:
            return f"{sources.own().place.prefix(own_id)}/{mqtt.topic}"

        topic = ProblemTopic(below, accept)
    watch = AlertWatch(
        section.plan,
        sources,
        MachineEyes(settings.gateway.state_dir).look,
        open_ways(section, own_id, links_of(settings)),
        topic,
        KeptAlerts(settings.gateway.state_dir, runtime_folder()),
    )
    site.site.add_resource(alerts_resource.PATH, alerts_resource.AlertsResource(watch, site.access))
    return watch
