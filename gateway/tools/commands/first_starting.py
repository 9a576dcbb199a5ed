"""The command `hedgerow first-start`."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import secrets
import signal
import socket
import sys
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

from gateway.base import replaced_file, systemd_credentials
from gateway.base.event_log import lines
from gateway.base.event_log.audit import AuditTrail
from gateway.base.printable import told
from gateway.process.configuration import config
from gateway.process.console.server import Console
from gateway.process.page.audit_notes import AuditNotes
from gateway.tools.commands import joining, new_files, output, qr
from gateway.tools.commands.errors import FailedError, WrongUseError, expect_folder
from gateway.tools.commands.new_gateways import host_name
from gateway.tools.first_start import (
    new_card,
    own_links,
    owner_wish,
    setup_card,
    setup_certificate,
)
from gateway.tools.first_start.near_links import NearLinks
from gateway.tools.first_start.near_listeners import NearListeners
from gateway.tools.first_start.new_owner import DeviceLogin, GatewayHome, OwnedGateway
from gateway.tools.first_start.owner_wish import WishError
from gateway.tools.first_start.setup_card import FILE_NAME, SetupCard, SetupCardError
from gateway.tools.first_start.setup_door import SetupDoor, SetupStage
from gateway.tools.first_start.setup_face import SetupDeeds, SetupFace, SetupMachine
from gateway.tools.provisioning import new_folder, unit
from gateway.tools.provisioning.new_folder import TakenError
from gateway.tools.provisioning.secret import MODE
from gateway.trust.certificates.token_book import TokenError
from gateway.trust.credentials.tls_file_faults import TlsFileError
from gateway.trust.enrolment.tokens import EnrolmentToken
from gateway.trust.tls.context import Tls
from gateway.web.api_error import ApiError

LOOK_S: Final = 2.0
"""So often it is looked which addresses there are."""
DONE_S: Final = 15 * 60.0
"""So long what phones need is shown to an owner who does not close it."""
LAST_ANSWER_S: Final = 0.5
_OWNER: Final = "owner"

_log = logging.getLogger(__name__)


def run(options: argparse.Namespace) -> int:
    """Serve the page, or write the card's file.

    Raises:
        WrongUseError: the card's file can't be used, or is there already.
        FailedError: nothing can be listened on, or a file can't be written.

    """
    if options.write_card is not None:
        return _write_card(options.write_card)
    home = GatewayHome(new_files.absolute(options.folder or new_files.own_folder()))
    try:
        sign = home.sign_of_owner()
        if sign is not None:
            sys.stdout.write(f"this gateway has an owner: {sign} is there\n")
            return 0
        home.trail.parent.mkdir(parents=True, exist_ok=True)
        trail = AuditTrail(home.trail)
        trail.append("first start", "first start opened")
    except OSError as error:
        named = error.filename or home.folder
        raise FailedError(f"first-start: {named}: {error.strerror or error}") from error
    card = _card(options.card)
    code = card.code or setup_card.new_code(secrets.randbelow)
    lines.begin(logging.INFO)
    certificate, key = card.certificate, card.key
    if not certificate:
        certificate, key = setup_certificate.made()
    with _naming():
        tls = setup_certificate.tls(certificate, key)
        print_once = f"certificate {setup_certificate.fingerprint(certificate)} (SHA-256)\n"
    if not card.code:  # that of a card stands there, and in no journal
        print_once = f"setup code {setup_card.shown(code)}\n{print_once}"
    if not _say(print_once) and not card.code:
        raise FailedError(
            "first-start: the setup code can't be shown: nobody reads what is printed"
        )
    deeds = FirstDeeds(home, options.port, trail)
    asyncio.run(_serve(deeds, code, tls, options.page_port or config.CONSOLE_PORT))
    return 0


def _card(file: Path | None) -> SetupCard:
    found = file or systemd_credentials.held(unit.FIRST_START_CREDENTIAL)
    if found is None:
        return SetupCard()
    try:
        with found.open("rb") as opened:
            text = opened.read(setup_card.FILE_BYTES_MAX + 1).decode()
        return SetupCard.parse(text)
    except OSError as error:
        raise WrongUseError(f"--card: {found}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise WrongUseError(f"--card: {found}: is not UTF-8") from error
    except SetupCardError as error:
        raise WrongUseError(f"--card: {found}: {error}") from error


@contextlib.contextmanager
def _naming() -> Iterator[None]:
    """Name the certificate of the card where it can't be used."""
    try:
        yield
    except (TlsFileError, ValueError) as error:
        raise WrongUseError(f"--card: certificate: {error}") from error
    except OSError as error:
        raise FailedError(f"first-start: {told(error)}") from error


def _write_card(folder: Path) -> int:
    expect_folder("--write-card", folder)
    made = new_card.made()
    try:
        new_folder.write(folder / FILE_NAME, made.card.as_text(), MODE)
        replaced_file.sync_folder(folder)
    except FileExistsError as error:
        raise WrongUseError(f"--write-card: {folder / FILE_NAME} is there already") from error
    except OSError as error:
        raise FailedError(f"--write-card: {folder}: {error.strerror}") from error
    _say(f"setup code {made.code}\ncertificate {made.fingerprint} (SHA-256)\n")
    return 0


class FirstDeeds:
    """The work of the first-start page, done in threads: keys are made and files written.

    Args:
        home: where the gateway will be.
        first_port: of its listeners; None for the usual ones.
        trail: has what is done, before and after it.

    Attributes:
        links: what the machine is linked to.
        trail: as given.

    """

    def __init__(self, home: GatewayHome, first_port: int | None, trail: AuditTrail) -> None:
        self.links = own_links.ask()
        self.trail = trail
        self._home = home
        self._first_port = first_port

    async def own(self, asked: Mapping[str, Any], host: str) -> OwnedGateway:
        """Write a gateway with an authority of its own.

        Raises:
            ApiError: nothing is written.

        """
        return await asyncio.to_thread(self._own, asked, host)

    async def join(self, token: str, host: str) -> OwnedGateway:
        """Write a gateway of a fleet, as `hedgerow join` does.

        Raises:
            ApiError: nothing is written.

        """
        return await asyncio.to_thread(self._join, token, host)

    def _own(self, asked: Mapping[str, Any], host: str) -> OwnedGateway:
        try:
            wish = owner_wish.wish(asked, self.links.kept(), self._first_port)
        except WishError as error:
            raise ApiError(HTTPStatus.BAD_REQUEST, str(error)) from error
        try:
            self._note("first start writes a gateway", host, wish.gateway.id)
            device = self._home.write(wish, new_files.machine())
            return self._owned(host, device)
        except TakenError as error:
            raise ApiError(HTTPStatus.CONFLICT, str(error)) from error
        except (config.ConfigError, OSError) as error:
            raise ApiError(HTTPStatus.INTERNAL_SERVER_ERROR, told(error)) from error

    def _join(self, text: str, host: str) -> OwnedGateway:
        try:
            token = EnrolmentToken.parse(text)
        except TokenError as error:
            raise ApiError(HTTPStatus.BAD_REQUEST, f"token: {error}") from error
        try:
            self._note("first start joins a fleet", host, token.name)
            joining.written(token, self._home.folder)
            joining.forget_key(self._home.folder)
            return self._owned(host)
        except (WrongUseError, FailedError) as error:
            raise ApiError(HTTPStatus.CONFLICT, str(error)) from error
        except (config.ConfigError, OSError, ValueError) as error:
            raise ApiError(HTTPStatus.INTERNAL_SERVER_ERROR, told(error)) from error

    def _owned(self, host: str, device: DeviceLogin | None = None) -> OwnedGateway:
        owned = self._home.owned(device)
        self._note("gateway has an owner", host, owned.id)
        return owned

    def _note(self, what: str, host: str, name: str) -> None:
        self.trail.append(_OWNER, what, address=host, name=name)


async def _serve(deeds: FirstDeeds, code: str, tls: Tls, port: int) -> None:
    ended, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    door = SetupDoor(code, lambda: secrets.token_urlsafe(32))
    host = socket.gethostname().partition(".")[0].lower()
    machine = SetupMachine(host_name(), frozenset((host, f"{host}.local")), lambda: deeds.links)
    notes = AuditNotes(deeds.trail, lambda kind, who: _log.debug("refused: %s: %s", kind, who))
    doing = SetupDeeds(deeds.own, deeds.join, qr.picture)
    face = SetupFace(machine, door, doing, notes, ended.set)
    listeners = NearListeners(lambda: Console({}, None, tls, face), port, _told_page)
    done_s = 0.0
    try:
        while not ended.is_set():
            deeds.links = await _looked(deeds.links)
            await listeners.follow(deeds.links)
            if not len(listeners):
                raise FailedError(f"--page-port: {port}: no address can be listened on")
            if door.stage is SetupStage.DONE:
                done_s += LOOK_S
                if done_s > DONE_S:
                    return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await ended.wait()
        await asyncio.sleep(LAST_ANSWER_S)
    finally:
        await listeners.stop()


def _told_page(at: str) -> None:
    _say(f"page https://{at}/\n")


async def _looked(before: NearLinks) -> NearLinks:
    try:
        return await asyncio.to_thread(own_links.ask)
    except OSError as error:
        _log.warning("first start: %s", told(error))
        return before


def _say(text: str) -> bool:
    """Print something, and return whether it could be: a screen may be somebody else's by now.

    A log-in on the console takes it away from all who write there (vhangup(2)).
    """
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except (OSError, output.OutputError):
        return False
    return True
