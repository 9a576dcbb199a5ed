"""Commands of `hedgerow keys` on a gateway's key stores and trust stores."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

from gateway.base import replaced_file
from gateway.base.columns import columns
from gateway.base.printable import printable
from gateway.process.access.serving_files import serving_files
from gateway.process.configuration import config
from gateway.process.configuration.config import ConfigError, GatewaySettings
from gateway.tools.commands import certifying, output
from gateway.tools.commands.errors import WrongUseError, expect_folder
from gateway.trust.certificates import private_keys
from gateway.trust.certificates import x509_forms as forms
from gateway.trust.certificates.authority_folder import OPEN, SECRET
from gateway.trust.certificates.holdings import HeldItem, held
from gateway.trust.certificates.importing import NoKeyError, imported
from gateway.trust.certificates.pkcs12_files import KeystoreContent, Pkcs12Error, as_pem
from gateway.trust.certificates.private_keys import PrivateKeyError
from gateway.trust.certificates.signature_keys import PrivateKey
from gateway.trust.credentials.tls_file_faults import TlsFileError

OWN_KEY = "gateway.key.pem"
OWN = "gateway.pem"
AUTHORITIES = "ca.pem"


def _folder(options: argparse.Namespace) -> Path:
    """Return the folder that is written into.

    Raises:
        WrongUseError: there is none of that name.

    """
    folder: Path = options.to
    expect_folder("--to", folder, "make it first")
    return folder


# -- list ------------------------------------------------------------------------------------------


def list_keys(options: argparse.Namespace) -> int:
    """List what an authority has issued, or what a gateway holds."""
    if options.config is None:
        return certifying.list_issued(options)
    try:
        settings = config.load(options.config, GatewaySettings)
        items = list(held(serving_files(settings)))
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


# -- request ---------------------------------------------------------------------------------------


def request(options: argparse.Namespace) -> int:
    """Make a key, and a request for its certificate."""
    name, addresses = options.name
    roles = tuple(options.role or ("gateway",))
    certifying.check_roles(roles)
    certifying.check_names([(name, addresses)], roles)
    folder = _folder(options)
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
    folder = _folder(options)
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
    try:
        found = imported(content, _waiting(folder), forms.now())
    except NoKeyError as error:
        why = f"no key in {folder} is of its certificate: `keys request` makes one"
        raise Pkcs12Error(why) from error
    except Pkcs12Error as error:
        raise Pkcs12Error(f"{file}: {error}") from error
    written: list[tuple[str, bytes, int]] = []
    if found.key is not None:
        # The key first: a gateway that reads between the two names the file at fault.
        written.append((OWN_KEY, private_keys.as_pem(found.key), SECRET))
        written.append((OWN, as_pem(found.chain), OPEN))
    if found.authorities:
        written.append((AUTHORITIES, as_pem(found.authorities), OPEN))
    return written


def _waiting(folder: Path) -> Iterator[PrivateKey]:
    """Yield keys of a folder; what is another one's or under a password is left out."""
    for path in sorted(folder.glob("*.key.pem")):
        with contextlib.suppress(PrivateKeyError):
            yield from private_keys.load(path.read_bytes())
