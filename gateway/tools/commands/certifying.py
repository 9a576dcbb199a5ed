"""Commands of `hedgerow keys` on an authority's folder."""

from __future__ import annotations

import argparse
import contextlib
import datetime
import os
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from cryptography import x509

from dtls.errors import KeystoreError
from gateway.base import exit_codes, replaced_file, systemd_credentials
from gateway.base.columns import columns
from gateway.base.event_log import audit
from gateway.base.printable import printable
from gateway.process.configuration import place as config_place
from gateway.tools.commands import output, psk_lines
from gateway.tools.commands.errors import FailedError, WrongUseError, expect_folder
from gateway.trust.certificates import (
    founding,
    importing,
    key_work,
    pkcs12_files,
    private_keys,
    unpacking,
)
from gateway.trust.certificates import x509_forms as forms
from gateway.trust.certificates.authority import Authority, CertificateMissingError, ends_within
from gateway.trust.certificates.authority_folder import (
    SECRET,
    AuthorityError,
    CertifyingKey,
    is_of,
    listed,
    trusted,
)
from gateway.trust.certificates.issued import IssuedCertificate
from gateway.trust.certificates.names import ALLOWED, is_file_name, is_gateway_id, is_reachable
from gateway.trust.certificates.pkcs12_files import KeystoreContent, Pkcs12Error
from gateway.trust.certificates.signature_keys import PrivateKey
from gateway.trust.tls.peer_certificate import LINKED_ROLES

AUTHORITY = "authority"
_NO_AUTHORITY = "--ca says where the authority is, and `hedgerow keys init-ca` makes one"

Named = Sequence[tuple[str, list[str]]]


_NUMBERED = re.compile(r"(?<=\.pem)\.[0-9a-f]{16,40}$")


@contextlib.contextmanager
def named_errors() -> Iterator[None]:
    """Have what is wrong with files told in one line.

    Raises:
        FailedError: a name has no certificate that is good.
        WrongUseError: a file is wrong.

    """
    try:
        yield
    except CertificateMissingError as error:
        raise FailedError(f"keys: {error}", exit_codes.NO_CERTIFICATE) from error
    except (
        AuthorityError,
        systemd_credentials.CredentialError,
        Pkcs12Error,
        KeystoreError,
    ) as error:
        raise WrongUseError(f"keys: {error}") from error
    except private_keys.PrivateKeyError as error:
        raise WrongUseError(f"keys: {error}") from error
    except OSError as error:
        # Where a key is written first has its certificate's number behind its name.
        where = f"{_NUMBERED.sub('', str(error.filename))}: " if error.filename else ""
        raise WrongUseError(f"keys: {where}{error.strerror or error}") from error


def opened(options: argparse.Namespace) -> Authority:
    """Return the authority that the arguments name.

    Raises:
        WrongUseError: it is not there.
        AuthorityError: a file of it can't be used.
        CredentialError: its password can't be had.
        OSError: a file of it can't be read.

    """
    return Authority(_authority(options), _ca_password(options))


def init_ca(options: argparse.Namespace) -> int:
    """Make an authority, or take one over."""
    with named_errors():
        folder, password = _folder(options), _ca_password(options)
        if options.source is None:
            founding.found(folder, password, kind=options.key_type, days=options.days)
        else:
            content = unpacked(options.source, options.password_file)
            if content.key is None or content.certificate is None:
                raise WrongUseError(f"keys: {options.source}: a trust store, without a key")
            if not importing.is_authority(content.certificate):
                raise WrongUseError(f"keys: {options.source}: no authority's certificate")
            pair = CertifyingKey(content.certificate, content.key)
            founding.take_over(folder, pair, password, content.authorities)
    sys.stdout.write(f"{folder / 'ca.pem'}\n")
    return 0


def issue(options: argparse.Namespace) -> int:
    """Issue certificates, or make a pre-shared key."""
    if options.psk is not None:
        return _issue_psk(options)
    roles = tuple(options.role or ("gateway",))
    check_roles(roles)
    check_names(options.names, roles)
    if not options.names:
        raise WrongUseError("keys issue: no name is given")
    with named_errors():
        authority = opened(options)
        for name, _ in options.names:
            if authority.has(name):
                raise WrongUseError(f"keys: {name} has a certificate: `keys renew` makes a new one")
        for name, addresses in options.names:
            file = authority.issue(
                name, addresses, roles=roles, days=options.days, kind=options.key_type
            )
            sys.stdout.write(f"{file}\n")
    return 0


def renew(options: argparse.Namespace) -> int:
    """Renew certificates."""
    if not options.names and not options.all and options.ending_within is None:
        raise WrongUseError("keys renew: neither a name nor --all nor --ending-within is given")
    with named_errors():
        authority = opened(options)
        current = {one.name: one for one in authority.issued()}
        chosen = dict(options.names)
        for name, one in current.items():
            within = options.ending_within
            is_meant = options.all or (within is not None and ends_within(one, within))
            if is_meant and one.is_valid(forms.now()) and not one.is_service:
                chosen.setdefault(name, [])
        for name, addresses in chosen.items():
            if name not in current:
                raise CertificateMissingError(f"{name!r} has no certificate here: issue one")
            check_names([(name, addresses)], current[name].roles)
        for name, addresses in chosen.items():
            authority.renew(name, addresses or None, days=options.days)
            sys.stdout.write(f"{authority.folder / name}.pem\n")
    return 0


def revoke(options: argparse.Namespace) -> int:
    """Revoke certificates, or take out a pre-shared key."""
    if options.psk is not None:
        file = _psk_file(options)
        with named_errors():
            was_there = psk_lines.take_out(file, options.psk)
        if not was_there:
            raise WrongUseError(f"keys: {file}: no identity {options.psk!r}")
        sys.stderr.write(f"{options.psk} taken out; a running gateway reads the file at SIGHUP\n")
        return 0
    with named_errors():
        authority = opened(options)
        for one in authority.revoke(options.names, options.days, keep_last=options.keep_last):
            sys.stdout.write(f"{one.name} {one.serial}\n")
    sys.stderr.write(
        f"{authority.folder / 'revoked.pem'} is new; a running gateway reads it at SIGHUP\n"
    )
    return 0


def list_issued(options: argparse.Namespace) -> int:
    """List what was issued."""
    with named_errors():
        issued = listed(_authority(options))
    now = forms.now()
    newest = {one.name: one.serial for one in issued}
    rows = [
        (one, _state(one, now, is_newest=newest[one.name] == one.serial))
        for one in issued
        if options.all or newest[one.name] == one.serial
    ]
    if options.json:
        output.print_json([_as_json(one, state) for one, state in rows])
        return 0
    table = [("name", "roles", "serial", "until", "state")]
    for one, state in rows:
        roles = ",".join(one.roles) or "-"
        table.append((printable(one.name), roles, one.serial, f"{one.until:%Y-%m-%d}", state))
    sys.stdout.write("".join(f"{line}\n" for line in columns(table)))
    return 0


def export(options: argparse.Namespace) -> int:
    """Write a key store or a trust store."""
    folder = _authority(options)
    with named_errors():
        password = _store_password(options)
        authorities = trusted(folder)
        content: KeystoreContent[PrivateKey] = KeystoreContent(None, None, authorities)
        if not options.trust:
            if not is_file_name(options.name):
                raise WrongUseError(f"keys: {options.name!r} is no name of a certificate")
            key_file, file = folder / f"{options.name}.key.pem", folder / f"{options.name}.pem"
            (key, *_) = private_keys.load(key_file.read_bytes())
            certificate = x509.load_pem_x509_certificate(file.read_bytes())
            if not is_of(key, certificate):
                raise AuthorityError(f"{key_file}: not the key of {file}")
            content = KeystoreContent(key, certificate, authorities)
        data = pkcs12_files.pack(content, password)
        replaced_file.replace(options.to, data, is_durable=True, mode=SECRET)
    sys.stdout.write(f"{options.to}\n")
    return 0


def roll_over(options: argparse.Namespace) -> int:
    """Begin a roll-over, or end it."""
    with named_errors():
        authority = opened(options)
        if options.finish:
            certificate = founding.end_roll_over(authority, is_forced=options.force)
            what = "is trusted alone: give ca.pem and revoked.pem to all gateways"
        else:
            certificate = founding.begin_roll_over(authority, options.days)
            what = "issues from now on: give ca.pem and revoked.pem to all gateways, then renew all"
    sys.stdout.write(f"{forms.common_name(certificate.subject)} {what}\n")
    return 0


def show_log(options: argparse.Namespace) -> int:
    """Show the audit trail."""
    from gateway.tools.commands import audit_text  # noqa: PLC0415

    with named_errors():
        changes = list(audit.AuditTrail(_trail(options)).changes())
    if options.json:
        output.print_json([one.as_json() for one in changes])
    else:
        sys.stdout.writelines(f"{audit_text.line(one)}\n" for one in changes)
    return 0


def _trail(options: argparse.Namespace) -> Path:
    if options.config is None:
        return _authority(options) / audit.FILE_NAME
    from gateway.process.configuration import config  # noqa: PLC0415  # of use here alone

    try:
        own = config.load(options.config, config.GatewaySettings).gateway
    except config.ConfigError as error:
        raise WrongUseError(str(error)) from error
    return own.state_dir / audit.FILE_NAME


# -- parts -----------------------------------------------------------------------------------------


def _folder(options: argparse.Namespace) -> Path:
    given: Path | None = options.ca
    if given is not None:
        return given
    place = config_place.SYSTEM if os.geteuid() == 0 else config_place.own()
    return place.parent / AUTHORITY  # beside what `hedgerow init` has written


def _authority(options: argparse.Namespace) -> Path:
    """Return the folder of an authority that is there."""
    folder = _folder(options)
    expect_folder("keys", folder, _NO_AUTHORITY)
    return folder


def _ca_password(options: argparse.Namespace) -> bytes | None:
    return systemd_credentials.password(options.ca_password_file, systemd_credentials.CA_PASSWORD)


def _store_password(options: argparse.Namespace) -> bytes:
    found = systemd_credentials.password(
        options.password_file, systemd_credentials.KEYSTORE_PASSWORD
    )
    if found is None:
        raise WrongUseError("keys: no password for the PKCS#12 file: --password-file")
    return found


def unpacked(file: Path, password_file: Path | None) -> KeystoreContent[PrivateKey]:
    """Open a key store or trust store that may be a stranger's.

    Args:
        file: in PKCS#12 or PEM.
        password_file: its first line opens it; None for systemd's credential, if there is one.

    Raises:
        Pkcs12Error: it can't be opened; it names the file.
        CredentialError: its password can't be had.
        OSError: it can't be read.

    """
    password = systemd_credentials.password(password_file, systemd_credentials.KEYSTORE_PASSWORD)
    with file.open("rb") as opened_file:
        data = opened_file.read(key_work.MOST_BYTES + 1)
    try:
        return unpacking.unpacked(data, password)
    except Pkcs12Error as error:
        raise Pkcs12Error(f"{file}: {error}") from error


def check_roles(roles: Sequence[str]) -> None:
    """Refuse what can be no role.

    Raises:
        WrongUseError: one can't.

    """
    for role in roles:
        if not is_gateway_id(role) or role.endswith("-"):
            raise WrongUseError(f"--role: {role!r} is not {ALLOWED}")


def check_names(names: Named, roles: Sequence[str]) -> None:
    """Refuse what a gateway would refuse later, before anything is made.

    Raises:
        WrongUseError: a name or an address is of no use.

    """
    for name, addresses in names:
        for address in addresses:
            if not is_reachable(address):
                raise WrongUseError(f"{name}: {address!r} is neither an address nor a host name")
        if LINKED_ROLES.intersection(roles) and not is_gateway_id(name):
            raise WrongUseError(f"{name!r} is no gateway id: {ALLOWED}")
        if not is_file_name(name):
            raise WrongUseError(f"{name!r} can be no name of a certificate here")


def _issue_psk(options: argparse.Namespace) -> int:
    file = _psk_file(options)
    with named_errors():
        line = f"{options.psk}:{psk_lines.add(file, options.psk)}"
    sys.stdout.write(f"{line}\n")
    if options.qr or sys.stdout.isatty():
        from gateway.tools.commands import qr  # noqa: PLC0415  # where it is shown

        sys.stdout.write(qr.code(line))
    sys.stderr.write("not shown again; a running gateway reads the file at SIGHUP\n")
    return 0


def _psk_file(options: argparse.Namespace) -> Path:
    if options.file is None:
        raise WrongUseError("--psk: needs --file")
    return Path(options.file)


def _state(one: IssuedCertificate, now: datetime.datetime, *, is_newest: bool) -> str:
    if one.revoked is not None:
        return f"revoked {one.revoked:%Y-%m-%d}"
    if one.until < now:
        return "ended"
    left = (one.until - now).days
    return f"ends in {left} days" if is_newest else f"replaced, valid for {left} days"


def _as_json(one: IssuedCertificate, state: str) -> dict[str, object]:
    row = one.as_json()
    del row["certificate"]
    return row | {"issuer": one.issuer, "state": state.partition(" ")[0].removesuffix(",")}
