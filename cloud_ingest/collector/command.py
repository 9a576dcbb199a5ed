"""The collector: a leaf of the tree whose log is the spool that Spark reads.

It dials gateways and accepts no links, has capability 0 and so is never root, and appends every
batch to the spool, byte for byte, before anybody can learn that it has it. What it missed while
it was away comes by repair, like everywhere.

With a section `[broker]` in place of `[tree]` it is a client of a plain MQTT broker instead
(`from_broker`), with `[kafka]` it reads topics of Kafka (`from_kafka`).

    hedgerow collector --config collector.toml
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import os
import signal
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from cloud_ingest.arguments import add_collector
from cloud_ingest.collector import keeping as spool_keeping
from cloud_ingest.collector import status_file
from cloud_ingest.collector.broker_settings import BrokerCollectorSettings
from cloud_ingest.collector.from_broker import BrokerCollector
from cloud_ingest.collector.kafka_settings import KafkaCollectorSettings
from cloud_ingest.collector.settings import CollectorSettings
from cloud_ingest.collector.shared_spool import SharedSpool
from cloud_ingest.collector.sharing import SharingLimits
from cloud_ingest.collector.status_file import StatusFile
from gateway.base import event_loop, exit_codes
from gateway.base.event_log import lines
from gateway.base.path_kind import why_no_folder
from gateway.base.remedies import of_file
from gateway.log.message_log import LogError
from gateway.node.links.handshake import Credentials
from gateway.node.links.link_tls import LinkTls
from gateway.node.links.node import TreeNode
from gateway.node.links.part import Unheeded
from gateway.node.links.retained_part import TOPIC as RETAINED_TOPIC
from gateway.node.links.settings import NodeReceiver, NodeSettings
from gateway.node.signing.fleet_keys import SigningFiles
from gateway.node.signing.fleet_proof import FleetProof
from gateway.node.signing.revocations import Revocations
from gateway.node.signing.revoking import Revoking
from gateway.process.configuration.config import ConfigError, load
from gateway.process.configuration.passing import may_pass
from gateway.process.running import tree_mode
from gateway.process.running.attachment import Attachment
from gateway.process.state_folder.identity import next_boot_epoch
from gateway.trust.tls.peer_certificate import COLLECTOR_ROLE
from tree_handler import boot_epoch
from tree_handler.batch import Entry, Header
from tree_handler.spanning.spanning_tree import Identity, Parameters

_log = logging.getLogger(__name__)

RETRY_S = 10.0
_TOO_MUCH = (
    "%s: the role is gateway, so who steals it could publish: issue one with --role collector"
)


AnyCollectorSettings = CollectorSettings | BrokerCollectorSettings | KafkaCollectorSettings


class Collecting(Protocol):
    """A collector of any kind."""

    def reload(self) -> None:
        """Read files again, as far as the kind does."""

    async def run(self) -> None:
        """Collect until cancelled."""


class Collector:
    """One collector process.

    Raises:
        ConfigError: the tree's key is no key, or a certificate is not usable.
        LogError: the spool can't be opened.
        OSError: another file of its folder can't be read or written now. What was taken back
            counts: it does not go on without that.

    """

    def __init__(self, settings: CollectorSettings) -> None:
        own, tree = settings.collector, settings.tree
        key = tree.key()
        self._settings = settings
        self._revocations = Revocations(own.spool_dir)
        tls, signing, revoking = self._secure()
        self._proof = FleetProof(signing, own.spool_dir, tree.name, self._revocations)
        self._interface = tree.discovery_interface
        self._spool = spool_keeping.opened(own.spool_dir, own.keeps_for, settings.log)
        known = boot_epoch.latest(own.id, self._spool.have)
        epoch = next_boot_epoch(own.spool_dir, known)
        node = NodeSettings(
            Credentials(own.id, tree.name, key, mode=tree.mode),
            Identity(own.id, epoch, 0.0, tree.discovery_interface, transit=False),
            Parameters(hello_s=tree.hello_s),
            sync=True,
            spool_unlogged=True,
            repair_interval_s=tree.repair_interval_s,
            floods_clients=tree.mode == "flood",
            seals=self._proof.seals,
        )
        self._shared = self._share(epoch)
        # Nothing is delivered: nobody subscribes here, and Spark decodes the spool.
        receiver = NodeReceiver(
            self._control,
            is_there=self._proof.is_there,
            unproven=self._proof.unproven,
            keep=None if self._shared is None else self._shared.keep,
        )
        self.node = TreeNode(node, self._spool, receiver)
        if self._shared is not None:
            self._shared.ride_on(self.node)
        self._proof.ride_on(self.node, own.id, epoch, revoking)
        self._routed = tree_mode.route(self.node, tree, own.spool_dir, transit=False)
        if self._routed is not None:
            self._routed.begin(["#"])
        self.node.admission.renew(tls)
        self._proof.tells_of_revocations(self.reload)
        self.node.add_part(Unheeded(RETAINED_TOPIC))
        self._attachment = Attachment(self.node, tree, own.id, key, epoch)

    def _share(self, epoch: int) -> SharedSpool | None:
        own = self._settings.collector
        if own.share == "all":
            return None
        limits = SharingLimits(hold_s=own.hold_s, held_bytes=own.hold_max_bytes)
        return SharedSpool((own.id, epoch), own.group, self._spool, limits, self._proof.seals)

    def reload(self, peer_id: str = "") -> None:
        """Read the certificates again; if one is wrong, all stay.

        Args:
            peer_id: the neighbour whose revocation list is to be gone by; empty if nobody's.

        """
        again = None
        if peer_id:  # a revocation waits for it, whatever fails
            again = asyncio.get_running_loop().call_later(RETRY_S, self.reload, peer_id)
        try:
            tls, signing, revoking = self._secure()
        except ConfigError as error:
            _log.error("nothing is read again: %s", error)
            return
        self._proof.renew(signing, revoking)
        for gateway_id in self.node.admission.renew(tls):
            self.node.drop(gateway_id, "its certificate is no longer accepted")
        if again is not None:
            again.cancel()
        _log.info("certificates are read again")

    def _secure(self) -> tuple[LinkTls | None, SigningFiles | None, Revoking]:
        revoking = self._settings.revoking()
        lists = (*self._revocations.lists, *revoking.lists)
        tls = self._settings.link_tls(lists)
        if tls is not None and COLLECTOR_ROLE not in tls.own_roles:
            _log.warning(_TOO_MUCH, self._settings.collector.certificate_file)
        for over in () if tls is None else tls.over:
            _log.error("%s, by this machine's clock: no link comes up until it is renewed", over)
        return tls, self._settings.signing(lists), revoking

    async def run(self) -> None:
        """Collect until cancelled; keeps `status.json` in the spool's folder up to date."""
        own, sharing = self._settings.collector, None
        status = StatusFile(own.spool_dir, self.node.commit.refusals)
        if self._shared is not None:
            sharing = asyncio.create_task(self._shared.run(), name="sharing")
        try:
            await self._attachment.start(self._interface, port=0)
            while True:
                await asyncio.sleep(status_file.INTERVAL_S)
                if sharing is not None and sharing.done():
                    sharing.result()
                spool_keeping.keep(self._spool, own.keeps_for, self.node.commit.refusals)
                await status.write(self._status())
        finally:
            await self._attachment.stop()
            if self._routed is not None:
                await self._routed.stop()
            await self.node.stop()
            if self._shared is not None and sharing is not None:
                sharing.cancel()
                self._shared.end()
            self.close()

    def close(self) -> None:
        """Let go of its files, as `run` does in the end."""
        self._proof.close()
        self._spool.close()

    def _control(self, entry: Entry, header: Header) -> None:
        """It answers no queries and keeps no members."""
        self._proof.receive(entry, header)
        if self._routed is not None:
            self._routed.control(entry, header)

    def _status(self) -> dict[str, object]:
        status = self.node.status() | {
            "pid": os.getpid(),
            "dialling": self._attachment.neighbours.status(),
            "refusals": dict(self.node.commit.refusals.counts),
        }
        if self._shared is not None:
            status["sharing"] = self._shared.status()
        return status


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a collector until SIGTERM or SIGINT; 2 on a wrong configuration."""
    parser = argparse.ArgumentParser(
        prog="python -m cloud_ingest.collector.command", description=__doc__
    )
    add_collector(parser)
    return run_with(parser.parse_args(arguments), "collector")


def run_with(options: argparse.Namespace, program: str) -> int:
    """Run a collector until SIGTERM or SIGINT; 2 on a wrong configuration.

    Args:
        options: as `cloud_ingest.arguments.add_collector` reads them.
        program: what an error begins with.

    """
    lines.begin(options.log_level.upper())
    try:
        event_loop.run(_serve(_load(options.config)))
    except (ConfigError, event_loop.EventLoopError, LogError) as error:
        sys.stderr.write(f"{program}: {error}\n")
        return exit_codes.FAILED if may_pass(error) else exit_codes.WRONG_USE
    return 0


def _load(path: Path) -> AnyCollectorSettings:
    """Read a collector's file; a section says which of them it is.

    Raises:
        ConfigError: as for `load`.

    """
    try:
        sections = tomllib.loads(path.read_text()).keys()
    except (OSError, ValueError, RecursionError):
        sections = {}.keys()  # `load` says what is wrong
    if "broker" in sections:
        return load(path, BrokerCollectorSettings)
    if "kafka" in sections:
        return load(path, KafkaCollectorSettings)
    return load(path, CollectorSettings)


def made(settings: AnyCollectorSettings) -> Collecting:
    """Make a collector of the kind that its file says.

    Raises:
        ConfigError: the configuration can't be gone by, or a file of the spool's folder can't be
            read or written now.
        LogError: the spool can't be opened.

    """
    try:
        return _made(settings)
    except LogError:
        raise
    except OSError as error:
        raise ConfigError("collector.spool_dir", of_file(error)) from error


def _made(settings: AnyCollectorSettings) -> Collecting:
    if why := why_no_folder(settings.collector.spool_dir):
        raise ConfigError("collector.spool_dir", why)
    if isinstance(settings, CollectorSettings):
        return Collector(settings)
    if isinstance(settings, BrokerCollectorSettings):
        return BrokerCollector(settings)
    try:
        from cloud_ingest.collector.from_kafka import KafkaCollector  # noqa: PLC0415  # an extra
    except ImportError as error:
        raise ConfigError("kafka", f"needs pip install 'hedgerow[kafka]' ({error})") from error
    return KafkaCollector(settings)


async def _serve(settings: AnyCollectorSettings) -> None:
    collector = made(settings)
    collecting = asyncio.create_task(collector.run(), name="collector")
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGHUP, collector.reload)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, collecting.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await collecting


if __name__ == "__main__":
    sys.exit(main())
