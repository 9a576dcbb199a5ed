"""What `hedgerow keys` does with a gateway's key stores and trust stores."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from cryptography import x509

from gateway.base import replaced_file
from gateway.base.columns import columns
from gateway.base.printable import printable
from gateway.process.access import secure_files
from gateway.process.configuration import config
from gateway.process.configuration.config import ConfigError, GatewaySettings
from gateway.tools.commands import certifying, output
from gateway.tools.commands.errors import WrongUseError
from gateway.trust.certificates import private_keys
from gateway.trust.certificates import x509_forms as forms
from gateway.trust.certificates.authority_folder import OPEN, SECRET, is_of
from gateway.trust.certificates.holdings import FIELDS, HeldItem, ServingFile, held
from gateway.trust.certificates.pkcs12_files import KeystoreContent, Pkcs12Error, as_pem
from gateway.trust.certificates.private_keys import PrivateKeyError
from gateway.trust.certificates.signature_keys import PrivateKey
from gateway.trust.credentials.certificate_files import TlsFileError
from gateway.trust.tls.context import TlsFiles

OWN_KEY = "gateway.key.pem"
OWN = "gateway.pem"
AUTHORITIES = "ca.pem"


# -- list ------------------------------------------------------------------------------------------


def list_keys(options: argparse.Namespace) -> int:
    """List what an authority has issued, or what a gateway holds."""
    if options.config is None:
        return certifying.list_issued(options)
    try:
        settings = config.load(options.config, GatewaySettings)
        items = list(held(_files(settings)))
    except (ConfigError, TlsFileError) as error:
        raise WrongUseError(str(error)) from error
    now = forms.now()
    if options.json:
        output.print_json([one.as_json(now) for one in items])
        return 0
    rows: list[tuple[str, ...]] = [("name", "what", "until", "state", "serves", "file")]
    rows += [_row(one, one.state(now)) for one in items]
    sys.stdout.write("".join(f"{line}\n" for line in columns(rows)))
    return 0


def _row(one: HeldItem, state: str) -> tuple[str, ...]:
    until = "-" if one.ends is None else f"{one.ends:%Y-%m-%d}"
    where = printable(f"{one.of.field}: {one.of.file}")
    return printable(one.name) or "-", one.what, until, printable(state), one.of.serves, where


def _files(settings: GatewaySettings) -> Iterator[ServingFile]:
    """The files of each section, in the clear, and what they serve."""
    password, mqtt = settings.keys.password_file, settings.mqtt
    broker = [f"mqtt.{name}" for name in ("tls_port", "secure_websocket_port")]
    served = [name for name in broker if getattr(mqtt, name.partition(".")[2]) is not None]
    if mqtt.has_link_files and settings.tree.tls != "off":
        served += ["links", *(["signatures"] if settings.tree.signatures == "on" else [])]
    coap, console = settings.coap, settings.console
    yield from _of("mqtt", mqtt, secure_files.tls_files(mqtt, password), served)
    yield from _of("coap", coap, secure_files.coap_files(coap, password), ["coap.dtls_port"])
    given = secure_files.console_files(console, password)
    yield from _of("console", console, given, ["console.port"])


def _of(
    section: str, of: object, given: TlsFiles | None, serves: Sequence[str]
) -> Iterator[ServingFile]:
    if given is None:
        return
    readable = {
        "certificate_file": given.certificate,
        "client_ca_file": given.client_ca,
        "client_crl_file": given.client_crl,
    }
    for field in FIELDS:
        file, clear = getattr(of, field), readable[field]
        if file is not None and clear is not None:
            yield ServingFile(f"{section}.{field}", file, clear, ", ".join(serves))


# -- request ---------------------------------------------------------------------------------------


def request(options: argparse.Namespace) -> int:
    """Make a key, and a request for its certificate."""
    name, addresses = options.name
    roles = tuple(options.role or ("gateway",))
    certifying.check_roles(roles)
    certifying.check_names([(name, addresses)], roles)
    folder: Path = options.to
    key_file, file = folder / f"{name}.key.pem", folder / f"{name}.csr.pem"
    with certifying.named_errors():
        if key_file.exists():
            raise WrongUseError(f"keys request: {key_file} is there: it may be in use")
        key = private_keys.make(options.key_type)
        asked = forms.request(key, name, forms.alternative_names(name, roles, addresses))
        # The key first: a request without its key is of no use.
        replaced_file.replace(key_file, private_keys.as_pem(key), is_durable=True, mode=SECRET)
        replaced_file.replace(file, asked, is_durable=True, mode=OPEN)
    sys.stdout.write(f"{key_file}\n{file}\n")
    return 0


# -- import ----------------------------------------------------------------------------------------


def import_store(options: argparse.Namespace) -> int:
    """Write the content of a key store as a gateway's files."""
    folder: Path = options.to
    with certifying.named_errors():
        content = certifying.unpacked(options.file, options.password_file)
        for name, data, mode in _written(content, options.file, folder):
            replaced_file.replace(folder / name, data, is_durable=True, mode=mode)
            sys.stdout.write(f"{folder / name}\n")
    return 0


def _written(
    content: KeystoreContent[PrivateKey], file: Path, folder: Path
) -> list[tuple[str, bytes, int]]:
    """Return what is written: all of it, before any."""
    if content.key is not None and content.certificate is None:
        raise Pkcs12Error(f"{file}: a key without a certificate: put both into one file")
    content = _with_key(content, folder)
    written: list[tuple[str, bytes, int]] = []
    if content.key is not None and content.certificate is not None:
        if content.certificate.not_valid_after_utc < forms.now():
            raise Pkcs12Error(f"{file}: its certificate ended {_day(content.certificate)}")
        own = as_pem([content.certificate, *content.between])
        # The key first: a gateway that reads between the two names the file at fault.
        written.append((OWN_KEY, private_keys.as_pem(content.key), SECRET))
        written.append((OWN, own, OPEN))
    vouching = content.roots or (() if content.key is not None else content.authorities)
    if vouching:
        written.append((AUTHORITIES, as_pem(vouching), OPEN))
    if not written:
        raise Pkcs12Error(f"{file}: neither a key nor a certificate")
    return written


def _with_key(content: KeystoreContent[PrivateKey], folder: Path) -> KeystoreContent[PrivateKey]:
    """A certificate that an authority has answered a request with, beside the key of before."""
    leaves = [one for one in content.authorities if not _vouches(one)]
    if content.key is not None or not leaves:
        return content
    for path in sorted(folder.glob("*.key.pem")):
        try:
            keys = private_keys.load(path.read_bytes())
        except PrivateKeyError:  # another one's, or under a password
            continue
        for key in keys:
            for one in leaves:
                if is_of(key, one):
                    others = [other for other in content.authorities if other != one]
                    return KeystoreContent(key, one, others)
    raise Pkcs12Error(f"no key in {folder} is of its certificate: `keys request` makes one")


def _vouches(certificate: x509.Certificate) -> bool:
    return certifying.is_authority(certificate) or certificate.issuer == certificate.subject


def _day(certificate: x509.Certificate) -> str:
    return f"{certificate.not_valid_after_utc:%Y-%m-%d}"
