"""The collector: a leaf of the tree whose log is the spool that Spark reads.

It dials gateways and accepts no links, has capability 0 and so is never root, and appends every
batch to the spool, byte for byte, before anybody can learn that it has it. What it missed while
it was away comes by repair, like everywhere.

With a section `[broker]` in place of `[tree]` it is a client of a plain MQTT broker instead
(`from_broker`).

    hedgerow collector --config collector.toml
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import logging
import os
import signal
import sys
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cloud_ingest.arguments import add_collector
from cloud_ingest.collector import keeping as spool_keeping
from cloud_ingest.collector.broker_settings import BrokerCollectorSettings
from cloud_ingest.collector.from_broker import BrokerCollector
from cloud_ingest.collector.shared_spool import SharedSpool
from cloud_ingest.collector.sharing import SharingLimits
from cloud_ingest.spool import receipts
from gateway import event_loop, replaced_file
from gateway.certificates import stores
from gateway.configuration import checks
from gateway.configuration.config import ConfigError, LogSection, TreeSection, load
from gateway.configuration.toml_file import Fault, hold
from gateway.credentials.certificate_files import TlsFileError
from gateway.credentials.crl import Crl
from gateway.links.handshake import Credentials
from gateway.links.link_tls import LinkTls
from gateway.links.node import TreeNode
from gateway.links.part import Unheeded
from gateway.links.retained_part import TOPIC as RETAINED_TOPIC
from gateway.links.settings import NodeReceiver, NodeSettings
from gateway.log.message_log import LogError, MessageLog
from gateway.process import tree_mode
from gateway.process.attachment import Attachment
from gateway.signing.fleet_keys import SigningFiles
from gateway.signing.fleet_proof import FleetProof
from gateway.signing.revocations import Revocations, Revoking
from gateway.state_folder.identity import next_boot_epoch
from gateway.tls.context import ClientCertificate, TlsFiles
from tree_handler.batch import Entry, Header
from tree_handler.errors import ProtocolError
from tree_handler.members.member import check_name
from tree_handler.spanning.spanning_tree import Identity, Parameters

_log = logging.getLogger(__name__)

STATUS_INTERVAL_S = 1.0
RETRY_S = 10.0
MAX_GROUP = 16
"""Each is sent all, and each tells each other."""


@dataclass(frozen=True, slots=True)
class CollectorSection:
    """Who the collector is, where it spools, and the certificate that it shows to gateways.

    ``keeps_for`` names jobs: what their tables do not have yet is not trimmed. The certificate is
    one of the fleet's authority, with the role ``gateway`` and the collector's id. With ``share``
    = ``origins`` the collectors of ``group``, this one among them, have each origin's batches in
    one of their spools; what others' spools are to have is held for ``hold_s`` at most.
    """

    id: str
    spool_dir: Path
    certificate_file: Path | None = None
    key_file: Path | None = None
    ca_file: Path | None = None
    crl_file: Path | None = None
    keeps_for: list[str] = field(default_factory=list)
    share: str = checks.chosen("all", "all", "origins")
    group: list[str] = field(default_factory=list)
    hold_s: float = checks.ranged(30.0, 10.0, 3_600.0)
    hold_max_bytes: int = checks.ranged(64 << 20, 1 << 20, 16 << 30)

    def __post_init__(self) -> None:
        try:
            check_name("id", self.id)
        except ProtocolError as error:
            raise ConfigError("id", str(error)) from error
        hold(self._faults())

    def _faults(self) -> Iterator[Fault]:
        yield from checks.marked(self)
        for number, member in enumerate(self.group):
            yield from checks.name(f"group[{number}]", member)
        if self.share == "all":
            if self.group:
                yield Fault("group", "there is one, and share is 'all'")
        elif self.id not in self.group or len(set(self.group)) < 2:
            yield Fault("group", f"is to name {self.id!r} and another collector at least")
        if len(self.group) > MAX_GROUP:
            yield Fault("group", f"more than {MAX_GROUP} collectors")


@dataclass(frozen=True, slots=True)
class CollectorSettings:
    """The whole configuration of a collector."""

    collector: CollectorSection
    tree: TreeSection
    log: LogSection = field(
        default_factory=lambda: LogSection(durability="sync", max_bytes=64 << 30)
    )

    def link_tls(self, spread: Sequence[Crl] = ()) -> LinkTls | None:
        """What its links show and ask for; None where they run without TLS.

        Args:
            spread: revocation lists of neighbours.

        Raises:
            ConfigError: a file is missing or not usable.

        """
        with _naming():
            files = self._files(spread)
            return None if files is None else LinkTls(files, self.collector.id)

    def signing(self, spread: Sequence[Crl] = ()) -> SigningFiles | None:
        """What it signs and checks with; None where signatures are off.

        Args:
            spread: revocation lists of neighbours.

        Raises:
            ConfigError: a file is missing or not usable.

        """
        with _naming():
            files = None if self.tree.signatures == "off" else self._files(spread)
            return None if files is None else SigningFiles.read(files)

    def revoking(self) -> Revoking:
        """Whose revocation lists count, and those of the files.

        Raises:
            ConfigError: a file is missing or not usable.

        """
        with _naming():
            files = self._files(())
            return Revoking() if files is None else Revoking.read(files)

    def _files(self, spread: Sequence[Crl]) -> TlsFiles | None:
        own = self.collector
        if self.tree.tls == "off":
            return None
        for name in ("certificate_file", "key_file", "ca_file"):
            if getattr(own, name) is None:
                raise ConfigError(f"collector.{name}", "missing, and tree.tls is 'required'")
        assert own.certificate_file is not None and own.key_file is not None
        return stores.in_the_clear(
            TlsFiles(
                own.certificate_file,
                own.key_file,
                ClientCertificate.REQUIRED,
                own.ca_file,
                own.crl_file,
                tuple(spread),
            )
        )


@contextlib.contextmanager
def _naming() -> Iterator[None]:
    try:
        yield
    except TlsFileError as error:
        where = f"collector.{error.field.removeprefix('client_')}"
        raise ConfigError(where, str(error)) from error


class Collector:
    """One collector process.

    Raises:
        ConfigError: the tree's key is no key, or a certificate is not usable.
        LogError: the spool can't be opened.

    """

    def __init__(self, settings: CollectorSettings) -> None:
        own, tree = settings.collector, settings.tree
        if settings.log.durability != "sync":
            raise ConfigError("log.durability", "readers of a spool need 'sync'")
        key = tree.key()
        self._settings = settings
        self._revocations = Revocations(own.spool_dir)
        tls, signing, revoking = self._secure()
        self._proof = FleetProof(signing, own.spool_dir, tree.name, self._revocations)
        self._spool_dir = own.spool_dir
        self._interface = tree.discovery_interface
        self._spool = MessageLog(
            own.spool_dir,
            segment_bytes=settings.log.segment_bytes,
            max_bytes=settings.log.max_bytes,
            mark=receipts.note,
        )
        self._spool.open()
        self._keeps_for = own.keeps_for
        spool_keeping.keep(self._spool, self._keeps_for)
        epoch = next_boot_epoch(own.spool_dir)
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
        try:
            tls, signing, revoking = self._secure()
        except ConfigError as error:
            _log.error("nothing is read again: %s", error)
            if peer_id:  # a revocation waits for it
                asyncio.get_running_loop().call_later(RETRY_S, self.reload, peer_id)
            return
        self._proof.renew(signing, revoking)
        for gateway_id in self.node.admission.renew(tls):
            self.node.drop(gateway_id, "its certificate is no longer accepted")
        _log.info("certificates are read again")

    def _secure(self) -> tuple[LinkTls | None, SigningFiles | None, Revoking]:
        revoking = self._settings.revoking()
        lists = (*self._revocations.lists, *revoking.lists)
        return self._settings.link_tls(lists), self._settings.signing(lists), revoking

    async def run(self) -> None:
        """Collect until cancelled; keeps `status.json` in the spool's folder up to date."""
        sharing = None
        if self._shared is not None:
            sharing = asyncio.create_task(self._shared.run(), name="sharing")
        try:
            await self._attachment.start(self._interface, port=0)
            while True:
                await asyncio.sleep(STATUS_INTERVAL_S)
                if sharing is not None and sharing.done():
                    sharing.result()
                self._write_status()
                spool_keeping.keep(self._spool, self._keeps_for)
        finally:
            await self._attachment.stop()
            if self._routed is not None:
                await self._routed.stop()
            await self.node.stop()
            if self._shared is not None and sharing is not None:
                sharing.cancel()
                self._shared.end()
            self._proof.close()
            self._spool.close()

    def _control(self, entry: Entry, header: Header) -> None:
        """It answers no queries and keeps no members."""
        self._proof.receive(entry, header)
        if self._routed is not None:
            self._routed.control(entry, header)

    def _write_status(self) -> None:
        status = self.node.status() | {
            "pid": os.getpid(),
            "dialling": self._attachment.neighbours.status(),
        }
        if self._shared is not None:
            status["sharing"] = self._shared.status()
        replaced_file.replace(self._spool_dir / "status.json", json.dumps(status).encode())


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
    logging.basicConfig(
        level=options.log_level.upper(),
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    try:
        event_loop.run(_serve(_load(options.config)))
    except (ConfigError, event_loop.EventLoopError, LogError) as error:
        sys.stderr.write(f"{program}: {error}\n")
        return 2
    return 0


def _load(path: Path) -> CollectorSettings | BrokerCollectorSettings:
    """Read a collector's file; a section says which of the two it is.

    Raises:
        ConfigError: as for `load`.

    """
    try:
        is_of_broker = "broker" in tomllib.loads(path.read_text())
    except (OSError, ValueError, RecursionError):
        is_of_broker = False  # `load` says what is wrong
    if is_of_broker:
        return load(path, BrokerCollectorSettings)
    return load(path, CollectorSettings)


async def _serve(settings: CollectorSettings | BrokerCollectorSettings) -> None:
    collector: Collector | BrokerCollector
    if isinstance(settings, CollectorSettings):
        collector = Collector(settings)
    else:
        collector = BrokerCollector(settings)
    collecting = asyncio.create_task(collector.run(), name="collector")
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGHUP, collector.reload)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, collecting.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await collecting


if __name__ == "__main__":
    sys.exit(main())
