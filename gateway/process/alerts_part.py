"""The alerts of a gateway, as its configuration says."""

from __future__ import annotations

from collections.abc import Callable

from gateway.alerting.problem_topic import ProblemTopic
from gateway.alerting.ways import open_ways
from gateway.coap.operations import alerts as alerts_resource
from gateway.coap.site import GatewaySite
from gateway.configuration.config import GatewaySettings
from gateway.process.alert_sources import AlertSources, MachineEyes
from gateway.process.alert_watch import AlertWatch
from tree_handler.batch import Entry


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

        def below() -> str:
            return f"{sources.own().place.prefix(own_id)}/{mqtt.topic}"

        shown = settings.home_assistant
        topic = ProblemTopic(own_id, below, shown.prefix if shown.discovery else "", accept)
    watch = AlertWatch(
        section.plan,
        sources,
        MachineEyes(settings.gateway.state_dir).look,
        open_ways(section, own_id),
        topic,
        settings.gateway.state_dir,
    )
    site.site.add_resource(alerts_resource.PATH, alerts_resource.AlertsResource(watch, site.access))
    return watch
