"""`hedgerow keys`: its arguments."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gateway.tools.commands.init import port

NAMED = "NAME[=ADDRESS,...]"
DAYS_MAX = 100 * 365
HOURS_MAX = 30 * 24


def add(commands: Any) -> None:
    """Add the command to the parser.

    Args:
        commands: the parser's commands.

    """
    keys = commands.add_parser(
        "keys",
        help="a fleet's certificates and keys: issue, renew, revoke",
        description="The authority of a fleet, in a folder that is kept where no gateway is: it "
        "issues certificates, renews and revokes them. docs/keys.md tells what to do when.",
    )
    actions = keys.add_subparsers(title="actions", metavar="ACTION", required=True)
    for each in (
        _init_ca,
        _issue,
        _renew,
        _revoke,
        _list,
        _request,
        _export,
        _import,
        _roll_over,
        _token,
        _serve,
        _enrol,
        _log,
    ):
        each(actions)


def named(text: str) -> tuple[str, list[str]]:
    """Return a name, and where it is reached."""
    name, _, addresses = text.partition("=")
    return name, [address for address in addresses.split(",") if address]


def _init_ca(actions: Any) -> None:
    init = actions.add_parser(
        "init-ca",
        help="make a fleet's authority",
        description="Make a fleet's authority: ca.pem, which all trust, and ca.key.pem, which "
        "stays in its folder. `hedgerow init --fleet` does that too.",
    )
    _authority(init)
    _kind(init)
    _days(init, "the authority is", "CA_DAYS")
    init.add_argument(
        "--from",
        dest="source",
        type=Path,
        metavar="FILE",
        help="take over an authority that was made elsewhere, key and certificate in PKCS#12",
    )
    _store_password(init)
    init.set_defaults(command=_runs("init_ca"))


def _issue(actions: Any) -> None:
    issue = actions.add_parser(
        "issue",
        help="make a key and a certificate, or a device's pre-shared key",
        description="Make NAME.key.pem and NAME.pem in the authority's folder. A gateway's name is "
        "its id. Behind it stands where its clients reach it, addresses and host names: they "
        "refuse a certificate that does not name what they connected to. Its id, its id with "
        '".local", and this machine (localhost) are named in each. With --psk: make a key for '
        "CoAP over DTLS, add it to a file of keys and print it, this once.",
    )
    issue.add_argument("names", nargs="*", type=named, metavar=NAMED, help="whose")
    _authority(issue)
    issue.add_argument(
        "--role",
        action="append",
        metavar="ROLE",
        help="of the names, again for more (default: gateway)",
    )
    _kind(issue)
    _days(issue, "they are", "DAYS")
    issue.add_argument("--psk", metavar="IDENTITY", help="make a pre-shared key in place of these")
    _psk_file(issue)
    issue.add_argument("--qr", action="store_true", help="print it as a QR code, too")
    issue.set_defaults(command=_runs("issue"), goes_on="making keys")


def _renew(actions: Any) -> None:
    renew = actions.add_parser(
        "renew",
        help="make new certificates that say what the last ones say",
        description="Make a new key and certificate of each name. The last one stays valid: it may "
        "be replaced on its gateway at any time before it ends.",
    )
    renew.add_argument("names", nargs="*", type=named, metavar=NAMED, help="whose")
    _authority(renew)
    renew.add_argument("--all", action="store_true", help="all that are neither revoked nor over")
    renew.add_argument(
        "--ending-within", type=days, metavar="DAYS", help="all of those that end by then"
    )
    _days(renew, "they are", "DAYS")
    renew.set_defaults(command=_runs("renew"))


def _revoke(actions: Any) -> None:
    revoke = actions.add_parser(
        "revoke",
        help="take back certificates, or a device's pre-shared key",
        description="Add all certificates of a name, or one by its serial number, to revoked.pem. "
        "A gateway that is given that file ends connections with them at `systemctl reload`. "
        "Without a name, renew the list: it ends too. With --psk: take a key out of a file.",
    )
    revoke.add_argument("names", nargs="*", metavar="NAME|SERIAL", help="what")
    revoke.add_argument(
        "--keep-last",
        action="store_true",
        help="all of a name but its last certificate, as for new hardware under an old name",
    )
    _authority(revoke)
    _days(revoke, "the list is", "DAYS")
    revoke.add_argument(
        "--psk",
        metavar="IDENTITY",
        help="identity of a pre-shared key to revoke, in place of these",
    )
    _psk_file(revoke)
    revoke.set_defaults(command=_runs("revoke"))


def _list(actions: Any) -> None:
    listed = actions.add_parser(
        "list",
        help="list what has been issued, or what a gateway holds",
        description="List the certificates that an authority has issued: those in use, or all. "
        "With --config list what a gateway's key stores and trust stores hold: until when, and "
        "what each serves.",
    )
    _authority(listed, has_key=False)
    listed.add_argument("--config", type=Path, metavar="FILE", help="a gateway's configuration")
    listed.add_argument("--all", action="store_true", help="those that were replaced or ended, too")
    listed.add_argument("--json", action="store_true", help="for scripts")
    listed.set_defaults(command=_runs("list_keys", "key_stores"))


def _request(actions: Any) -> None:
    request = actions.add_parser(
        "request",
        help="make a key, and a request for its certificate",
        description="Make NAME.key.pem, which stays here, and NAME.csr.pem, which another "
        "authority signs (PKCS#10). `keys import` takes what it answers.",
    )
    request.add_argument(
        "name", type=named, metavar=NAMED, help="name of the gateway, and where it is reached"
    )
    request.add_argument(
        "--to", type=Path, required=True, metavar="FOLDER", help="a folder that is there"
    )
    request.add_argument("--role", action="append", metavar="ROLE", help="default: gateway")
    _kind(request)
    request.set_defaults(command=_runs("request", "key_stores"))


def _export(actions: Any) -> None:
    export = actions.add_parser(
        "export",
        help="write a key store or a trust store in PKCS#12",
        description="Write a name's key, its certificate and the authorities into one file under a "
        "password; or, with --trust, the authorities alone, as Java reads them too.",
    )
    which = export.add_mutually_exclusive_group(required=True)
    which.add_argument("name", nargs="?", metavar="NAME", help="whose")
    which.add_argument("--trust", action="store_true", help="a trust store")
    _authority(export, has_key=False)
    export.add_argument("--to", type=Path, required=True, metavar="FILE", help="the new file")
    _store_password(export)
    export.set_defaults(command=_runs("export"))


def _import(actions: Any) -> None:
    imported = actions.add_parser(
        "import",
        help="write a PKCS#12 or PEM file's content as files for a gateway",
        description="Write gateway.pem, gateway.key.pem and ca.pem into a folder; of a trust store "
        "ca.pem alone. A certificate without a key has to be of gateway.key.pem there, or of a "
        "request's key. What is there is replaced, when all of it is good. A file whose password "
        "is slow to try, or that is large, is refused.",
    )
    imported.add_argument("file", type=Path, metavar="FILE", help="in PKCS#12, or PEM")
    imported.add_argument(
        "--to", type=Path, required=True, metavar="FOLDER", help="a folder that is there"
    )
    _store_password(imported)
    imported.set_defaults(command=_runs("import_store", "key_stores"))


def _roll_over(actions: Any) -> None:
    roll = actions.add_parser(
        "roll-over",
        help="put another authority in the place of a fleet's",
        description="Make a new authority, which issues from now on; ca.pem and revoked.pem hold "
        "both. Give these to all gateways, then `keys renew --all` and give each its own; in the "
        "end --finish leaves the new authority alone, and all are given ca.pem again.",
    )
    _authority(roll)
    _days(roll, "the new authority is", "CA_DAYS")
    roll.add_argument("--finish", action="store_true", help="trust the new one alone")
    roll.add_argument(
        "--force", action="store_true", help="with --finish: also while the old one is in use"
    )
    roll.set_defaults(command=_runs("roll_over"))


def _token(actions: Any) -> None:
    token = actions.add_parser(
        "token",
        help="make a one-time token for a new gateway",
        description="Make a token with which one gateway gets its certificate, once, and print it, "
        "this once. It says where the enrolment service is, and which authority vouches for it.",
    )
    token.add_argument(
        "name", type=named, metavar=NAMED, help="gateway for whose certificate it is good"
    )
    _authority(token)
    token.add_argument(
        "--service", metavar="HOST:PORT", help="address at which `hedgerow keys serve` is reached"
    )
    token.add_argument("--role", action="append", metavar="ROLE", help="default: gateway")
    token.add_argument(
        "--fleet",
        type=Path,
        metavar="DIR",
        help="the folder that `hedgerow init --fleet` has written: the token brings all that "
        "`hedgerow join` needs, and --ca is DIR/authority",
    )
    token.add_argument(
        "--place",
        metavar="DOMAIN[/GROUP]",
        help="with --fleet: where in the hierarchy (default: that of its first gateway)",
    )
    token.add_argument(
        "--port",
        type=port,
        metavar="N",
        help="with --fleet: the first of four in a row, as `hedgerow init --port` has them",
    )
    token.add_argument(
        "--hours", type=hours, default=24, metavar="HOURS", help="it is good for (default: 24)"
    )
    _days(token, "the certificate is", "DAYS")
    token.add_argument("--take-back", action="store_true", help="make the name's token useless")
    token.add_argument("--qr", action="store_true", help="print it as a QR code, too")
    token.add_argument("--json", action="store_true", help="for scripts")
    token.set_defaults(command=_runs("token", "enrolling"))


def _serve(actions: Any) -> None:
    serve = actions.add_parser(
        "serve",
        help="run the enrolment service",
        description="Give certificates to new gateways with a token, and to those of the fleet "
        "before theirs end, and tell all whom to trust; over TLS, until SIGTERM or SIGINT. It runs "
        "where the authority's folder is, and the other actions may be used meanwhile.",
    )
    _authority(serve)
    serve.add_argument(
        "--listen", required=True, metavar="HOST:PORT", help="an address of this machine"
    )
    serve.set_defaults(command=_runs("serve", "enrolling"))


def _enrol(actions: Any) -> None:
    enrol = actions.add_parser(
        "enrol",
        help="get this gateway's certificate with a token",
        description="Make gateway.key.pem, which never leaves this machine, and get gateway.pem, "
        "ca.pem and revoked.pem for it from the service that the token names.",
    )
    enrol.add_argument(
        "token", metavar="TOKEN", help='or "-": from standard input, unseen by other users'
    )
    enrol.add_argument(
        "--to",
        type=Path,
        required=True,
        metavar="FOLDER",
        help="folder for the files; made if it is missing",
    )
    _kind(enrol)
    enrol.set_defaults(command=_runs("enrol", "enrolling"), goes_on="asking for a certificate")


def _log(actions: Any) -> None:
    log = actions.add_parser(
        "log",
        help="show who changed what",
        description="Show an audit trail, the oldest change first: the authority's, or with "
        "--config a gateway's, of the keys, passwords, policies and members that it went by.",
    )
    _authority(log, has_key=False)
    log.add_argument("--config", type=Path, metavar="FILE", help="a gateway's configuration")
    log.add_argument("--json", action="store_true", help="for scripts")
    log.set_defaults(command=_runs("show_log"))


# -- arguments that several have ------------------------------------------------------------------


def _authority(action: argparse.ArgumentParser, *, has_key: bool = True) -> None:
    action.add_argument(
        "--ca",
        type=Path,
        metavar="FOLDER",
        help="the authority's (default: authority, beside the configuration)",
    )
    if has_key:
        action.add_argument(
            "--ca-password-file",
            type=Path,
            metavar="FILE",
            help="its first line opens the authority's key (default: systemd's credential "
            "hedgerow-ca-password; else the key is not encrypted)",
        )


def _store_password(action: argparse.ArgumentParser) -> None:
    action.add_argument(
        "--password-file",
        type=Path,
        metavar="FILE",
        help="its first line is the PKCS#12 file's password (default: systemd's credential "
        "hedgerow-keystore-password)",
    )


def _psk_file(action: argparse.ArgumentParser) -> None:
    action.add_argument(
        "--file", type=Path, metavar="FILE", help="with --psk: the file of keys (coap.psk_file)"
    )


def _kind(action: argparse.ArgumentParser) -> None:
    action.add_argument(
        "--key-type",
        choices=["p256", "ed25519"],
        default="p256",
        help="of new keys; browsers and small devices know p256 alone (default: p256)",
    )


def _days(action: argparse.ArgumentParser, what: str, default: str) -> None:
    usual = {"DAYS": 730, "CA_DAYS": 7300}[default]
    action.add_argument(
        "--days",
        type=days,
        default=usual,
        metavar="DAYS",
        help=f"so long {what} valid (default: {usual})",
    )


def days(text: str) -> int:
    """Return a number of days, from an argument."""
    if not text.isdecimal() or not 0 < int(text) <= DAYS_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is not 1 to {DAYS_MAX} days")
    return int(text)


def hours(text: str) -> int:
    """Return a number of hours, from an argument."""
    if not text.isdecimal() or not 0 < int(text) <= HOURS_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is not 1 to {HOURS_MAX} hours")
    return int(text)


def _runs(name: str, module: str = "certifying") -> Callable[[argparse.Namespace], int]:
    def command(options: argparse.Namespace) -> int:
        runs = importlib.import_module(
            f"gateway.tools.commands.{module}"
        )  # X.509 is of use here alone
        run: Callable[[argparse.Namespace], int] = getattr(runs, name)
        return run(options)

    return command
