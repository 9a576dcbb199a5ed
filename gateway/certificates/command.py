"""Make a fleet's authority and the certificates of its gateways, in PEM files of one folder.

    .venv/bin/python deploy/fleet-certificates FOLDER gw-root=10.0.0.1 gw-north=10.0.0.2,north.lan
    .venv/bin/python deploy/fleet-certificates FOLDER --revoke gw-north

The first run makes ca.pem and ca.key.pem; keep the key where no gateway is. Each name gets NAME.pem
and NAME.key.pem, for its listener and for links; a name that has them is renewed with --renew. A
gateway's name is its id: lower-case letters, digits and hyphens. Behind it stands where its clients
reach it, addresses and host names: they refuse a certificate that does not name what they connected
to. Its id, its id with ".local", and this machine (localhost) are named in each. Roles are for
others than gateways (--role bridge, say). What --revoke names is added to revoked.pem, which every
run renews: it is valid for --days too. What is wrong is said in one line, with exit code 2, and
nothing is made then. `hedgerow init --fleet` makes such a folder too, named authority.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import NoReturn

from gateway.certificates.authority import DAYS, Authority, AuthorityError
from gateway.certificates.names import (
    ALLOWED,
    TAKEN,
    is_file_name,
    is_gateway_id,
    is_reachable,
)
from gateway.commands import output
from gateway.commands.errors import WrongUseError

MOST_DAYS = 100 * 365


def main() -> int:
    """Do what the arguments say."""
    options = _parser().parse_intermixed_args()  # names may stand behind --renew, say
    try:
        with output.arriving():
            _check(options)
            _make(options)
    except (WrongUseError, AuthorityError) as error:
        output.complain(f"fleet-certificates: {error}")
        return 2
    except OSError as error:
        output.complain(f"fleet-certificates: {error.filename}: {error.strerror}")
        return 2
    return 0


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """One line, where argparse would print its usage as well."""
        self.exit(2, f"{self.prog}: {message} (see --help)\n")


def _parser() -> _Parser:
    parser = _Parser(
        prog="fleet-certificates",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "names", nargs="*", type=_named, metavar="NAME[=ADDRESS,...]", help="gateway ids"
    )
    parser.add_argument("--role", default="gateway", help="of the names' certificates")
    parser.add_argument(
        "--days", type=int, default=DAYS, help=f"valid for so long (default: {DAYS})"
    )
    parser.add_argument("--renew", action="store_true", help="for names that have one")
    parser.add_argument("--revoke", nargs="+", default=[], metavar="NAME")
    return parser


def _check(options: argparse.Namespace) -> None:
    """Refuse what a gateway would refuse later, before anything is made."""
    folder: Path = options.folder
    if not is_gateway_id(options.role) or options.role.endswith("-"):
        raise WrongUseError(f"--role: {options.role!r} is not {ALLOWED}")
    for name, addresses in options.names:
        for address in addresses:
            if not is_reachable(address):
                raise WrongUseError(f"{name}: {address!r} is neither an address nor a host name")
        if options.role == "gateway" and not is_gateway_id(name):
            raise WrongUseError(f"{name!r} is no gateway id: {ALLOWED}")
        if not is_file_name(name):
            raise WrongUseError(f"{name!r} can be no name of a certificate here")
    if not 0 < options.days <= MOST_DAYS:
        raise WrongUseError(f"--days: {options.days} is not 1 to {MOST_DAYS}")
    for name in options.revoke:
        file = folder / f"{name}.pem"
        if name not in dict(options.names) and (name in TAKEN or not file.is_file()):
            raise WrongUseError(f"--revoke: {name!r} has no certificate here: {file}")


def _named(text: str) -> tuple[str, list[str]]:
    name, _, addresses = text.partition("=")
    return name, [address for address in addresses.split(",") if address]


def _make(options: argparse.Namespace) -> None:
    authority = Authority(options.folder)
    for name, addresses in options.names:
        if options.renew or not authority.has(name):
            authority.issue(name, addresses, role=options.role, days=options.days)
            sys.stdout.write(f"{options.folder / name}.pem\n")
    authority.revoke(options.revoke, options.days)
