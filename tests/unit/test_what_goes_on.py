"""Background work of the product goes on when one of its items fails.

Tasks that go on go through `gateway.base.watched_tasks` or `gateway.base.tasks`, and timers that
ring again through `gateway.base.periodic_timer` or `gateway.base.due_timer`. All others stand here,
with the reason why a failure of theirs stops nothing but what it was about.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

PROJECT = Path(__file__).parents[2]
PACKAGES = (
    "gateway",
    "cloud_ingest",
    "dtls",
    "coap_engine",
    "resource_directory",
    "tree_handler",
    "alerts",
)
BEGINS = frozenset(
    ("create_task", "ensure_future", "call_later", "call_at", "TaskGroup", "run_in_executor")
)
MECHANISMS = frozenset(
    (
        "gateway/base/watched_tasks.py",
        "gateway/base/tasks.py",
        "gateway/base/periodic_timer.py",
        "gateway/base/due_timer.py",
        "gateway/base/timers.py",
        "gateway/base/punctual_loop.py",
        "gateway/node/links/schedule.py",
    )
)
REASONS: dict[str, tuple[str, ...]] = {
    "it is one request's, one connection's or one item's, and ends with it": (
        "cloud_ingest/dashboard/api.py:Api._in_thread",
        "cloud_ingest/dashboard/connections.py:_Connection.accepted",
        "cloud_ingest/dashboard/shared_answers.py:SharedAnswers.answer",
        "gateway/coap/remote/gathering.py:GatheredAnswer._grow",
        "gateway/coap/remote/gathering.py:GatheredAnswer.begin",
        "gateway/coap/rendering.py:Renderings.begin",
        "gateway/coap/sensors/device_answers.py:DeviceAnswers.call",
        "gateway/tools/commands/many_resources.py:answers",
        "gateway/process/console/server.py:_Connection._due",
        "gateway/process/console/server.py:_Connection._serve",
        "gateway/tools/demo/story.py:_Story._publish",
        "gateway/trust/enrolment/service.py:EnrolmentService._begin",
        "gateway/trust/shares/password_checks.py:PasswordChecks.run",
        "gateway/process/running/readings.py:Readings._keep",
        "gateway/broker/proxy_protocol/layer.py:ProxiedConnection.connection_made",
        "gateway/trust/shares/paced_reading.py:PacedReading._flow",
    ),
    "who waits for it is given its failure": (
        "gateway/process/access/whole_change.py:WholeChanges.carry_out",
        "gateway/tools/commands/looking.py:_followed",
        "gateway/tools/commands/shown_log.py:_follow",
        "gateway/tools/first_start/setup_face.py:SetupFace._worked",
        "gateway/tools/top/live.py:LiveTop.run",
        "gateway/coap/remote/noted_names.py:NotedNames.note",
        "gateway/sensors/device_calls.py:DeviceCalls.call",
        "gateway/sensors/reads.py:Reads.of",
        "cloud_ingest/collector/from_kafka.py:_aside",
        "gateway/broker/inbound/read_gate.py:ReadGate.for_verdict",
        "gateway/process/running/service.py:_until_any",
    ),
    "its end is the process's, which is started anew": (
        "cloud_ingest/collector/command.py:Collector.run",
        "cloud_ingest/collector/command.py:_serve",
        "cloud_ingest/collector/source_spool.py:SourceSpool.fill",
    ),
    "it catches whatever its work raises, tells it, and goes on or is begun again by the next": (
        "cloud_ingest/dashboard/server.py:Server.start",
        "gateway/broker/durability/checkpoints.py:Checkpoints.sweep",
        "gateway/broker/durability/queue_losses.py:QueueLosses.sweep",
        "gateway/coap/sensors/device_observers.py:DeviceObservers.changed",
        "gateway/home_assistant/commands.py:Commands._take",
        "gateway/node/links/backlog.py:LinkBacklog.__init__",
        "gateway/node/links/commit.py:GroupCommit._start",
        "gateway/node/links/neighbours.py:Neighbours._keep",
        "gateway/node/links/repairs.py:Repairs._begin",
        "gateway/node/links/routed_part.py:RoutedPart._begin_to_serve",
        "gateway/node/links/surveys.py:Surveys.begin",
        "gateway/process/running/alert_watch.py:AlertWatch._hand_over",
        "gateway/process/running/alert_watch.py:AlertWatch.acknowledge_soon",
        "gateway/process/running/substitutes.py:SubstitutePart._do",
        "gateway/sensors/coap_device.py:CoapSensor.begin",
    ),
    "each read is guarded for itself, and who runs all of them is watched": (
        "gateway/sensors/sampler.py:Sampler._read_back",
        "gateway/sensors/sampler.py:Sampler._sample_due",
        "gateway/sensors/sampler.py:Sampler.run",
    ),
    "it is set again before what it does, or in `finally`": (
        "cloud_ingest/collector/command.py:Collector.reload",
        "dtls/core_timer.py:CoreTimer.set",
        "gateway/process/running/access_in_use.py:AccessInUse._obey",
        "gateway/coap/sensors/device_answers.py:DeviceAnswers._described",
        "gateway/trust/certificates/expiry.py:ExpiryWatch._wait",
        "gateway/node/links/discovery.py:MulticastDiscovery._schedule",
        "gateway/process/page/topic_api.py:TopicApi._sweep_later",
    ),
    "the link ends where it fails": ("gateway/node/links/link.py:Link._hand_up",),
    "it rings once; each item is guarded, and the next event sets it anew": (
        "gateway/process/running/access_in_use.py:AccessInUse.revoked",
        "gateway/coap/directory/fleet_observing.py:FleetObservations._again",
        "gateway/coap/directory/fleet_observing.py:FleetObservations._begin.told",
        "gateway/coap/directory/fleet_observing.py:FleetObservations._soon",
        "gateway/coap/refusals.py:RefusalLog.look_soon",
        "gateway/coap/told_in_turns.py:ToldInTurns._tell",
        "gateway/base/event_log/bounded_lines.py:LeftOut.count",
        "gateway/node/links/commit.py:GroupCommit._takes_again",
        "gateway/node/links/commit.py:GroupCommit.append",
        "gateway/process/running/readings.py:Readings.met",
    ),
    "what it tells is on the disk, and holds from the next start on without it": (
        "gateway/process/page/configuration_api.py:ConfigurationApi._gone_by",
    ),
    "what was to be done is asked for again: by the next record, event, look-up or connection": (
        "cloud_ingest/collector/from_broker.py:BrokerCollector._one_connection",
        "cloud_ingest/collector/from_broker.py:BrokerCollector._store",
        "dtls/client_transport.py:Association._pump",
        "gateway/process/running/access_in_use.py:AccessInUse._begin",
        "gateway/broker/access/amqtt_plugins.py:_Events._tell",
        "gateway/coap/directory/fleet_lookup.py:FleetLookUps._go_on",
        "gateway/process/fleet_status/publishing.py:StatusPublisher.handle_timer",
        "gateway/node/links/dns_sd.py:DnsSd._changed",
        "gateway/node/links/gathering.py:Gathering.add",
        "gateway/node/signing/revocations.py:Revocations._keep",
    ),
}


def begun_in(path: Path) -> Iterator[str]:
    """Yield the functions of a file that begin something, as often as they do."""

    def walk(node: ast.AST, name: str) -> Iterator[str]:
        for child in ast.iter_child_nodes(node):
            named = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
            inner = f"{name}.{child.name}".lstrip(".") if isinstance(child, named) else name
            if isinstance(child, ast.Call):
                called = child.func
                if getattr(called, "attr", getattr(called, "id", "")) in BEGINS:
                    yield f"{path.relative_to(PROJECT)}:{name}"
            yield from walk(child, inner)

    yield from walk(ast.parse(path.read_text()), "")


@cache
def begun() -> frozenset[str]:
    """Return all functions of the product that begin something, but for the mechanisms'."""
    paths = (path for package in PACKAGES for path in sorted((PROJECT / package).rglob("*.py")))
    meant = (path for path in paths if str(path.relative_to(PROJECT)) not in MECHANISMS)
    return frozenset(name for path in meant for name in begun_in(path))


def test_what_goes_on_by_itself_is_watched_or_has_a_reason_why_a_failure_stops_nothing() -> None:
    listed = {name for names in REASONS.values() for name in names}
    assert sorted(begun() - listed) == [], "watch it, or say here why a failure stops nothing"
    assert sorted(listed - begun()) == [], "these are no more"


def test_each_stands_under_one_reason() -> None:
    names = [name for names in REASONS.values() for name in names]
    assert len(names) == len(set(names))
