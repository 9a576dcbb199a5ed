"""Puts a gateway's page together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.process.page.administration import ADMINISTERED, Administration
from gateway.process.page.audit_notes import AuditNotes
from gateway.process.page.configuration_api import ConfigPlace, ConfigurationApi
from gateway.process.page.device_key_api import DeviceKeyApi
from gateway.process.page.face import PageFace, PageOwner, may_enter
from gateway.process.page.keys_when_asked import KeysWhenAsked
from gateway.process.page.own_password_api import OwnPasswordApi
from gateway.process.page.own_process import OwnProcess
from gateway.process.page.reading_history import ReadingHistory
from gateway.process.page.record_api import RecordApi
from gateway.process.page.sensor_api import SensorApi
from gateway.process.page.sensor_list_api import PlannedSensors, SensorListApi
from gateway.process.page.site_api import SiteApi
from gateway.process.page.site_asker import SiteAsker
from gateway.process.page.topic_api import TopicApi
from gateway.process.page.user_api import UserApi
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
    from gateway.process.config_trials.change_on_trial import Check
    from gateway.process.configuration.config import GatewaySettings
    from gateway.process.page.device_key_api import DeviceKeyDesk
    from gateway.process.page.keys_api import KeysApi
    from gateway.process.page.log_lines import RecentLines
    from gateway.process.page.sensor_api import AddedTables
    from gateway.process.page.topic_tap import TopicTap
    from gateway.process.page.user_file import UserDesk
    from gateway.sensors.sampler import Sampler


@dataclass(frozen=True, slots=True)
class PageSources:
    """The parts of a gateway that a page is made of.

    Attributes:
        settings: of the gateway.
        files: say who may do what.
        broker: has clients and topics.
        site: has the resources that are asked.
        sampler: reads the sensors.
        roll: has the sensors.
        tables: of sensors that were added.
        device_keys: makes and revokes keys.
        users: changes users and their passwords.
        tap: has messages as they come.
        lines: of the log.
        trail: of changes.

    """

    settings: GatewaySettings
    files: AccessFiles
    broker: GatewayBroker
    site: GatewaySite
    sampler: Sampler
    roll: PlannedSensors
    tables: AddedTables
    device_keys: DeviceKeyDesk
    users: UserDesk
    tap: TopicTap
    lines: RecentLines
    trail: AuditTrail


class PageParts:
    """A page, and what of it goes by files.

    Args:
        face: answers; an attribute too.
        topics: answers what is asked of topics.
        policies: by which both go.
        configuration: changes that.

    """

    def __init__(
        self,
        face: PageFace,
        topics: TopicApi,
        policies: PoliciesInUse,
        configuration: ConfigurationApi,
    ) -> None:
        self.face = face
        self._topics = topics
        self._policies = policies
        self._configuration = configuration

    def follow(self, files: AccessFiles) -> None:
        """Go by files that were read again."""
        self._policies.follow(files)
        self._topics.follow(files.broker.policy)
        self.face.follow(files.policy, files.broker.passwords)

    def stop(self) -> None:
        """Set no timer any more."""
        self._topics.stop()
        self._configuration.stop()


class PoliciesInUse:
    """The policies by which the gateway goes now.

    Args:
        files: have them.

    """

    def __init__(self, files: AccessFiles) -> None:
        self._now = _policies(files)

    def __call__(self) -> Policies:
        """Return the policies as last read."""
        return self._now

    def follow(self, files: AccessFiles) -> None:
        """Go by others from now on."""
        self._now = _policies(files)


def _policies(files: AccessFiles) -> Policies:
    topics: Policy = files.policy if files.broker.policy is None else files.broker.policy
    return Policies(topics, files.policy)


def open_page(sources: PageSources, check: Check) -> PageParts:
    """Make the page.

    Args:
        sources: what it is made of.
        check: finds what is wrong with a configuration.

    """
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
    sensors = SensorApi(asker, sources.tables)
    device_keys = DeviceKeyApi(sources.device_keys, policies)
    sensor_list = SensorListApi(asker, sources.roll, sources.sampler, ReadingHistory())
    resources = SiteApi(asker, state_dir, site.take_out)

    administration = Administration(policies)
    place = ConfigPlace(settings.file, state_dir)
    configuration = ConfigurationApi(place, administration, check, OwnProcess.find)

    def keys_api() -> KeysApi:
        from gateway.process.page.keys_api import KeysApi  # noqa: PLC0415  # for who asks

        return KeysApi(settings, administration, OwnProcess.find)

    keys = KeysWhenAsked(keys_api)

    def may(visitor: Principal) -> dict[str, bool]:
        return {
            "clients": asker.may(visitor, "GET", "clients"),
            "disconnect": asker.may(visitor, "POST", "clients"),
            "publish": topics.may_publish(visitor),
            "alerts": asker.may(visitor, "POST", "alerts"),
            "directory": resources.may_take_out(visitor),
            "members": asker.may(visitor, "DELETE", "members"),
            "sensors": sensors.may_add(visitor),
            "device_keys": device_keys.may(visitor),
            **{what: records.may(visitor, what) for what in ("log", "audit", "policy")},
            **{what: administration.may(visitor, what) for what in ADMINISTERED},
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
    notes = AuditNotes(sources.trail, sources.broker.core.refusals.count)
    gateway_id = settings.gateway.id
    users = UserApi(sources.users, administration, policies, sources.trail, gateway_id)
    own_password = OwnPasswordApi(sources.users, door, notes, gateway_id)
    handlers = {
        **resources.handlers,
        **topics.handlers,
        **records.handlers,
        **sensor_list.handlers,
        **sensors.handlers,
        **device_keys.handlers,
        **configuration.handlers,
        **keys.handlers,
        **users.handlers,
        **own_password.handlers,
    }
    face = PageFace(owner, door, handlers, notes, may)
    return PageParts(face, topics, policies, configuration)
