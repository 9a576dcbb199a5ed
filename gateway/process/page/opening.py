"""Puts a gateway's page together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.process.page.audit_notes import AuditNotes
from gateway.process.page.face import PageFace, PageOwner, may_enter
from gateway.process.page.reading_history import ReadingHistory
from gateway.process.page.record_api import RecordApi
from gateway.process.page.site_api import SiteApi
from gateway.process.page.site_asker import SiteAsker
from gateway.process.page.topic_api import TopicApi
from gateway.trust.policy.explaining import Policies
from gateway.trust.policy.policy import Policy
from gateway.trust.policy.principal import Principal
from gateway.web.log_in import WebLogIn
from light_dataclasses import dataclass

if TYPE_CHECKING:
    from gateway.base.event_log.audit import AuditTrail
    from gateway.broker.broker import GatewayBroker
    from gateway.coap.site import GatewaySite
    from gateway.process.access.files import AccessFiles
    from gateway.process.configuration.config import GatewaySettings
    from gateway.process.page.log_lines import RecentLines
    from gateway.process.page.topic_tap import TopicTap
    from gateway.sensors.sampler import Sampler


@dataclass(frozen=True, slots=True)
class PageSources:
    """What a page is made of.

    Attributes:
        settings: of the gateway.
        files: say who may do what.
        broker: has clients and topics.
        site: has the resources that are asked.
        sampler: reads the sensors.
        tap: has messages as they come.
        lines: of the log.
        trail: of changes.

    """

    settings: GatewaySettings
    files: AccessFiles
    broker: GatewayBroker
    site: GatewaySite
    sampler: Sampler
    tap: TopicTap
    lines: RecentLines
    trail: AuditTrail


class PageParts:
    """A page, and what of it goes by files.

    Args:
        face: answers; an attribute too.
        topics: answers what is asked of topics.
        policies: by which both go.

    """

    def __init__(self, face: PageFace, topics: TopicApi, policies: PoliciesInUse) -> None:
        self.face = face
        self._topics = topics
        self._policies = policies

    def follow(self, files: AccessFiles) -> None:
        """Go by files that were read again."""
        self._policies.follow(files)
        self._topics.follow(files.broker.policy)
        self.face.follow(files.policy, files.broker.passwords)

    def stop(self) -> None:
        """Set no timer any more."""
        self._topics.stop()


class PoliciesInUse:
    """The policies by which the gateway goes now.

    Args:
        files: have them.

    """

    def __init__(self, files: AccessFiles) -> None:
        self._now = _policies(files)

    def __call__(self) -> Policies:
        """Return them."""
        return self._now

    def follow(self, files: AccessFiles) -> None:
        """Go by others from now on."""
        self._now = _policies(files)


def _policies(files: AccessFiles) -> Policies:
    topics: Policy = files.policy if files.broker.policy is None else files.broker.policy
    return Policies(topics, files.policy)


def open_page(sources: PageSources) -> PageParts:
    """Make the page."""
    settings, files, site = sources.settings, sources.files, sources.site
    policies = PoliciesInUse(files)
    asker = SiteAsker(site.answers(), site.access)
    topics = TopicApi(
        sources.broker.core,
        sources.tap,
        files.broker.policy,
        asks_plugins=sources.broker.permissions.asks_plugins,
    )
    records = RecordApi(
        sources.lines, sources.trail, policies, asker, settings.gateway.id, settings.file
    )
    state_dir = settings.gateway.state_dir
    resources = SiteApi(asker, sources.sampler, ReadingHistory(), state_dir, site.take_out)

    def may(visitor: Principal) -> dict[str, bool]:
        return {
            "clients": asker.may(visitor, "GET", "clients"),
            "disconnect": asker.may(visitor, "POST", "clients"),
            "publish": topics.may_publish(visitor),
            "alerts": asker.may(visitor, "POST", "alerts"),
            "directory": resources.may_take_out(visitor),
            "members": asker.may(visitor, "DELETE", "members"),
            **{what: records.may(visitor, what) for what in ("log", "audit", "policy")},
            "support": all(records.may(visitor, one) for one in ("support", "log", "audit")),
        }

    own = settings.console
    owner = PageOwner(
        settings.gateway.id,
        own.certificate_file is not None,
        frozenset(own.names),
        settings.mqtt.client_ca_file,
    )
    door = WebLogIn(files.policy, files.broker.passwords, may_enter, settings.limits)
    handlers = {**resources.handlers, **topics.handlers, **records.handlers}
    counted = sources.broker.core.refusals.count
    face = PageFace(owner, door, handlers, AuditNotes(sources.trail, counted), may)
    return PageParts(face, topics, policies)
