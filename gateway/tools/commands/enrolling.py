"""The commands `hedgerow keys token`, `serve` and `enrol`."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

from dtls.byte_order_mark import first_line, text_of
from dtls.datagrams import join_host_port
from gateway.base import replaced_file
from gateway.base.event_log import audit, lines
from gateway.base.toml.checks import host_and_port
from gateway.tools.commands import certifying, output
from gateway.tools.commands.errors import FailedError, WrongUseError
from gateway.tools.provisioning.files import AUTHORITY
from gateway.tools.provisioning.grown import GrownFleet, welcome_of_member
from gateway.tools.provisioning.new_folder import TakenError
from gateway.tools.provisioning.plan import PlanError
from gateway.trust.certificates import private_keys
from gateway.trust.certificates.authority_folder import OPEN, SECRET
from gateway.trust.certificates.signature_keys import PrivateKey
from gateway.trust.certificates.token_book import TokenBook, TokenError, TokenGrant
from gateway.trust.enrolment.client import EnrolmentClient, ServiceError, vouched_by
from gateway.trust.enrolment.desk import EnrolmentDesk
from gateway.trust.enrolment.requests import EnrolmentAnswer
from gateway.trust.enrolment.service import EnrolmentService
from gateway.trust.enrolment.tokens import EnrolmentToken, fingerprint_of

HOUR_S = 3600.0
_TOKEN_BYTES_MAX = 4096
KEY, CERTIFICATE = "gateway.key.pem", "gateway.pem"


def token(options: argparse.Namespace) -> int:
    """Make a token, or take one back."""
    (name, addresses), roles = options.name, tuple(options.role or ("gateway",))
    if options.fleet is not None and options.ca is None:
        options.ca = options.fleet / AUTHORITY
    certifying.check_roles(roles)
    certifying.check_names([options.name], roles)
    with certifying.named_errors():
        authority = certifying.opened(options)
        book, now_s = TokenBook(authority.folder), time.time()
        if options.take_back:
            if not book.take_back(name, now_s):
                raise WrongUseError(f"keys: {name!r} has no token that could be used")
            authority.trail.append(audit.current_user(), "token taken back", None, name=name)
            return 0
        if options.service is None:
            raise WrongUseError("keys token: --service: where does `hedgerow keys serve` listen?")
        for fault in host_and_port("service", options.service):
            raise WrongUseError(f"--service: {fault.why}")
        until_s = now_s + options.hours * HOUR_S
        grant = TokenGrant(name, tuple(addresses), roles, options.days, until_s, "")
        if options.fleet is not None:
            grant = _welcomed(grant, options)
        secret = book.make(grant, now_s)
        authority.trail.append(
            audit.current_user(), "token made", None, name=name, roles=list(roles)
        )
        vouching = fingerprint_of(authority.vouching())
    text = EnrolmentToken(name, options.service, vouching, secret).as_text()
    if options.json:
        output.print_json({"token": text, "name": name, "until_s": round(until_s)})
        return 0
    sys.stdout.write(f"{text}\n")
    if options.qr or sys.stdout.isatty():
        from gateway.tools.commands import qr  # noqa: PLC0415  # where it is shown

        sys.stdout.write(qr.code(text))
    sys.stderr.write(f"not shown again; good once, for {options.hours} hours\n")
    return 0


def _welcomed(grant: TokenGrant, options: argparse.Namespace) -> TokenGrant:
    """Return a grant with all that `hedgerow join` needs."""
    address = grant.addresses[0] if grant.addresses else ""
    try:
        welcome = welcome_of_member(options.fleet, grant.name)
        if welcome is None:
            grown = GrownFleet(options.fleet, grant.name, address, options.place, options.port)
            welcome = grown.welcome()
        elif address or options.place is not None or options.port is not None:
            raise PlanError(
                f"{options.fleet / grant.name}: is there already, and says where it is and what "
                "place it has: give its name alone"
            )
    except (PlanError, TakenError) as error:
        raise WrongUseError(f"keys token: {error}") from error
    reached = grant.addresses or (welcome.plan.address,)
    return replace(grant, addresses=reached, welcome=welcome.as_json())


def serve(options: argparse.Namespace) -> int:
    """Run the enrolment service until SIGTERM or SIGINT."""
    host, _, port = options.listen.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65_535:
        raise WrongUseError(f"--listen: {options.listen!r} is not HOST:PORT")
    lines.begin(logging.INFO)
    with certifying.named_errors():
        authority = certifying.opened(options)
        desk = EnrolmentDesk(authority, time.time)
        asyncio.run(_serve(EnrolmentService(authority, desk), host.strip("[]"), int(port)))
    return 0


async def _serve(service: EnrolmentService, host: str, port: int) -> None:
    stopping, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    try:
        at = join_host_port(host, await service.start(host, port))
    except OSError as error:
        why = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
        raise FailedError(f"--listen: {join_host_port(host, port)}: {why}") from error
    sys.stdout.write(f"enrolment at {at}\n")
    sys.stdout.flush()
    try:
        await stopping.wait()
    finally:
        await service.stop()


def enrol(options: argparse.Namespace) -> int:
    """Get a certificate with a token, for a key that is made here."""
    folder: Path = options.to
    given = read_token(options.token, "keys enrol")
    if (folder / CERTIFICATE).exists():
        raise WrongUseError(f"keys: {folder / CERTIFICATE} is there already, and stays as it is")
    with certifying.named_errors():
        folder.mkdir(parents=True, exist_ok=True)
        key = _key(folder, options.key_type)
        _write(folder, enrolled(given, key, "keys enrol"))
    sys.stderr.write(
        "configuration, tree key, users and policy are the fleet's: copy them from another "
        "gateway; `hedgerow join`, with a token of `hedgerow keys token --fleet`, gets them too\n"
    )
    return 0


def read_token(text: str, command: str) -> EnrolmentToken:
    """Return the token that a command was given, or that stands on its standard input for ``-``.

    Raises:
        WrongUseError: it is none.

    """
    try:
        return EnrolmentToken.parse(_line_given(command) if text == "-" else text)
    except TokenError as error:
        raise WrongUseError(f"{command}: {error}") from error


def _line_given(command: str) -> str:
    """Return the first line of standard input."""
    if sys.stdin is None:
        raise WrongUseError(f"{command}: no token: standard input is closed")
    try:
        return text_of(first_line(sys.stdin.buffer.readline(_TOKEN_BYTES_MAX)))
    except ValueError as error:
        raise WrongUseError(f"{command}: no token: standard input {error}") from error


def enrolled(given: EnrolmentToken, key: PrivateKey, command: str) -> EnrolmentAnswer:
    """Spend a token at its service.

    Raises:
        FailedError: the service gives nothing for it.

    """
    try:
        return EnrolmentClient(given.service, vouched_by(given)).enrol(given, key)
    except (ServiceError, ValueError) as error:
        raise FailedError(f"{command}: {error}") from error


def _key(folder: Path, kind: str) -> PrivateKey:
    """Return the gateway's key, which stays here; that of an attempt whose answer was not heard."""
    file = folder / KEY
    if file.exists():
        return private_keys.load(file.read_bytes())[0]
    key = private_keys.make(kind)
    replaced_file.replace(file, private_keys.as_pem(key), is_durable=True, mode=SECRET)
    return key


def _write(folder: Path, found: EnrolmentAnswer) -> None:
    # The certificate last: with it the gateway is enrolled.
    for name, text in (
        ("ca.pem", found.authorities),
        ("revoked.pem", found.revoked),
        (CERTIFICATE, found.certificate),
    ):
        replaced_file.replace(folder / name, text.encode(), is_durable=True, mode=OPEN)
        sys.stdout.write(f"{folder / name}\n")
