"""The configuration of a collector that is a node of the tree, and what all kinds share."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gateway.base import systemd_credentials
from gateway.base.toml import checks
from gateway.base.toml.toml_file import Fault, hold
from gateway.node.links.link_tls import LinkTls
from gateway.node.signing import newest_lists
from gateway.node.signing.fleet_keys import SigningFiles
from gateway.node.signing.revoking import Revoking
from gateway.process.configuration.config import ConfigError, LogSection, TreeSection
from gateway.trust.certificates import stores
from gateway.trust.credentials.crl import Crl
from gateway.trust.credentials.tls_file_faults import TlsFileError
from gateway.trust.tls.context import ClientCertificate, TlsFiles
from gateway.trust.tls.peer_certificate import LINKED_ROLES

MAX_GROUP = 16
"""Each is sent all, and each tells each other."""


def spool_log() -> LogSection:
    """Return how a spool is kept unless it is said."""
    return LogSection(durability="sync", max_bytes=64 << 30)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientAccess:
    """The account and the files with which a client comes to another system."""

    user: str = ""
    password_file: Path | None = None
    ca_file: Path | None = None
    certificate_file: Path | None = None
    key_file: Path | None = None

    def access_faults(self) -> Iterator[Fault]:
        """Yield what of them does not go together."""
        if (self.certificate_file is None) != (self.key_file is None):
            yield Fault("certificate_file", "certificate_file and key_file go together")
        if self.certificate_file is not None and self.ca_file is None:
            yield Fault("ca_file", "missing: a certificate is shown in TLS alone")
        if self.password_file is not None and not self.user:
            yield Fault("user", "missing, and there is a password")

    def password(self, section: str, credential: str) -> bytes | None:
        """Return the user's password, read now, or of systemd's credential; None if it has none.

        Raises:
            ConfigError: it can't be had; named by the section.

        """
        if not self.user:
            return None
        try:
            return systemd_credentials.password(self.password_file, credential)
        except systemd_credentials.CredentialError as error:
            raise ConfigError(f"{section}.password_file", str(error)) from error


@dataclass(frozen=True, slots=True)
class OriginSection:
    """The origin that spool and tables name for these messages, and the spool's folder.

    ``id`` is like a gateway's, and no gateway's or other collector's of the same tables.
    ``keeps_for`` names jobs: what their tables do not have yet is not trimmed.
    """

    id: str
    spool_dir: Path
    keeps_for: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        hold(checks.name("id", self.id))


@dataclass(frozen=True, slots=True)
class CollectorSection(OriginSection):
    """The collector's id, its spool, and the certificate that it shows to gateways.

    The certificate is one of the fleet's authority, with the role ``collector`` and the collector's
    id; one with the role ``gateway`` is accepted, and could be used for more. With ``share`` =
    ``origins`` the collectors of ``group``, this one among them, have each origin's batches in one
    of their spools; what others' are to have is held ``hold_s`` at most.
    """

    certificate_file: Path | None = None
    key_file: Path | None = None
    ca_file: Path | None = None
    crl_file: Path | None = None
    share: str = checks.chosen("all", "all", "origins")
    group: list[str] = field(default_factory=list)
    hold_s: float = checks.ranged(30.0, 10.0, 3_600.0)
    hold_max_bytes: int = checks.ranged(64 << 20, 1 << 20, 16 << 30)

    def __post_init__(self) -> None:
        OriginSection.__post_init__(self)
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
    log: LogSection = field(default_factory=spool_log)

    def link_tls(self, spread: Sequence[Crl] = ()) -> LinkTls | None:
        """Return what its links show and ask for; None where they run without TLS.

        Args:
            spread: revocation lists of neighbours.

        Raises:
            ConfigError: a file is missing or not usable.

        """
        with _naming():
            files = self._files(spread)
            return None if files is None else LinkTls(files, self.collector.id, LINKED_ROLES)

    def signing(self, spread: Sequence[Crl] = ()) -> SigningFiles | None:
        """Return what it signs and checks with; None where signatures are off.

        Args:
            spread: revocation lists of neighbours.

        Raises:
            ConfigError: a file is missing or not usable.

        """
        with _naming():
            files = None if self.tree.signatures == "off" else self._files(spread)
            return None if files is None else SigningFiles.read(files)

    def revoking(self) -> Revoking:
        """Return whose revocation lists count, and those of the files.

        Raises:
            ConfigError: a file is missing or not usable.

        """
        with _naming():
            files = self._files(())
            return Revoking() if files is None else newest_lists.read(files)

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
