"""The command `hedgerow join`."""

from __future__ import annotations

import argparse
import errno
import os
import pwd
import socket
import stat
import subprocess
import sys
from pathlib import Path

from dtls import private_file
from gateway.base import replaced_file
from gateway.process.configuration import config
from gateway.process.configuration import place as config_place
from gateway.tools.commands import certifying, enrolling, new_files, next_steps
from gateway.tools.commands.errors import FailedError, WrongUseError
from gateway.tools.provisioning import files, new_folder
from gateway.tools.provisioning.plan import GatewayPlan, PlanError
from gateway.tools.provisioning.welcome import Welcome
from gateway.trust.certificates import private_keys
from gateway.trust.certificates.authority_folder import SECRET
from gateway.trust.certificates.signature_keys import PrivateKey
from gateway.trust.enrolment.requests import EnrolmentAnswer
from gateway.trust.enrolment.tokens import EnrolmentToken

SYSTEMD = Path("/run/systemd/system")
"""Is there where systemd runs (sd_booted(3))."""


def join(options: argparse.Namespace) -> int:
    """Get what a gateway needs, write it, and start the gateway where that is this machine's way.

    Raises:
        WrongUseError: the token is none, or something is there already.
        FailedError: the service refuses, or what it hands on does not fit this machine.

    """
    given = enrolling.read_token(options.token, "join")
    folder = new_files.absolute(options.folder or new_files.own_folder())
    unit = written(given, folder)
    sys.stdout.write(f"{given.name} is written to {folder}\n")
    if folder == config_place.SYSTEM.parent and SYSTEMD.is_dir() and not options.no_start:
        _start(folder, unit)
        sys.stdout.write(f"{unit.name} is started, and starts with the machine\n")
    else:
        next_steps.of_joined(folder, unit)
    forget_key(folder)
    return 0


def written(given: EnrolmentToken, folder: Path) -> Path:
    """Get what the gateway of a token needs, and write it; it is on the disk when this returns.

    Its key is kept apart too, for an attempt that is repeated: `forget_key` ends that.

    Args:
        given: the token.
        folder: where to write.

    Returns:
        The file of its unit.

    Raises:
        WrongUseError: something is there already.
        FailedError: the service refuses, or what it hands on does not fit this machine.

    """
    kept = _kept_key(folder)
    unit = _unit_before(given, folder, kept)
    if unit is None:
        unit = _written(given, folder, kept)
    _note_written(folder)
    return unit


def forget_key(folder: Path) -> None:
    """Forget the key that is kept for another attempt; nothing is left to do."""
    _kept_key(folder).unlink()


def _kept_key(folder: Path) -> Path:
    return new_folder.beside(folder, "key.pem")


def _unit_before(given: EnrolmentToken, folder: Path, kept: Path) -> Path | None:
    """Return the unit of this gateway, if an attempt has written all and was not heard of again."""
    own = folder / "tls" / "gateway.key.pem"
    file = folder / files.CONFIGURATION
    if not os.path.lexists(kept):
        return None
    new_files.take_back(folder)
    if not file.exists() or not own.exists():
        return None
    with certifying.named_errors():
        _refuse_others(kept)
        try:
            found = config.load(file, config.GatewaySettings)
        except config.ConfigError as error:  # somebody has changed it meanwhile
            raise WrongUseError(f"join: {error}") from error
        if found.gateway.id != given.name or private_file.read(own) != private_file.read(kept):
            return None
    units = (folder / name for name in files.unit_names(given.name))
    return next((unit for unit in units if unit.exists()), None)


def _written(given: EnrolmentToken, folder: Path, kept: Path) -> Path:
    """Get what the gateway needs, and write it; return its unit."""
    new_files.refuse_taken(folder, [files.CONFIGURATION, "tls"])
    with certifying.named_errors():
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            key = _key(kept)
        except private_file.OpenToOthersError:
            raise
        except OSError as error:  # the key that is kept beside it is no name of the user's
            raise WrongUseError(f"join: {folder}: {error.strerror or error}") from error
    welcome, trusted = _asked(given, key)
    _check_address(welcome.plan)
    tls = {
        "ca.pem": trusted.authorities,
        "revoked.pem": trusted.revoked,
        "gateway.pem": trusted.certificate,
        "gateway.key.pem": private_keys.as_pem(key).decode(),
    }

    def fill(fresh: Path) -> None:
        files.write_joined(fresh, folder, welcome, tls, new_files.machine())
        config.load(fresh / files.CONFIGURATION, config.GatewaySettings)
        new_folder.force_to_disk(fresh)

    try:
        new_files.make(folder, fill)
    except config.ConfigError as error:
        raise FailedError(f"join: what the fleet hands on: {error}; nothing is written") from error
    return folder / files.unit_name(welcome.plan)


def _key(kept: Path) -> PrivateKey:
    """Return the gateway's key; that of an attempt whose answer was not heard, or that was not
    written.

    Where others may write beside the folder, one may have put a key there, which he has too.
    """
    if os.path.lexists(kept):
        _refuse_others(kept)
        return private_keys.load(private_file.read(kept))[0]
    key = private_keys.make(private_keys.KINDS[0])
    replaced_file.replace(kept, private_keys.as_pem(key), is_durable=True, mode=SECRET)
    return key


def _refuse_others(kept: Path) -> None:
    found = kept.lstat()
    if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
        raise FailedError(f"join: {kept}: no file of this user's: remove it, and repeat this")


def _asked(given: EnrolmentToken, key: PrivateKey) -> tuple[Welcome, EnrolmentAnswer]:
    trusted = enrolling.enrolled(given, key, "join")
    if trusted.welcome is None:
        raise FailedError(
            "join: the token brought a certificate alone, and is used now: take another one, of "
            "`hedgerow keys token --fleet DIR`"
        )
    try:
        welcome = Welcome.parse(trusted.welcome)
    except PlanError as error:
        raise FailedError(f"join: {error}") from error
    if welcome.plan.id != given.name:
        raise FailedError(f"join: the token is {given.name}'s, and the plan {welcome.plan.id}'s")
    return welcome, trusted


def _check_address(plan: GatewayPlan) -> None:
    """Refuse an address that this machine does not have."""
    family = socket.AF_INET6 if ":" in plan.address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as tried:
            tried.bind((plan.address, 0))
    except OSError as error:
        if error.errno != errno.EADDRNOTAVAIL:
            raise FailedError(f"join: {plan.address}: {error.strerror}") from error
        raise FailedError(
            f"join: {plan.address}, which the token names, is no address of this machine: give it "
            "that one and repeat this, or make a token with the address that it has"
        ) from error


def _note_written(folder: Path) -> None:
    """Have the folder's names on the disk: after a power cut nothing else has the key."""
    try:
        for each in (folder, folder.parent):
            replaced_file.sync_folder(each)
    except OSError as error:
        raise FailedError(f"join: all is written, but {folder}: {error.strerror}") from error


def _start(folder: Path, unit: Path) -> None:
    """Have systemd run it, as a user of its own."""
    user = files.SYSTEM_USER
    try:
        account = pwd.getpwnam(user)
    except KeyError:
        adding = ("useradd", "--system", "--no-create-home", "--shell", "/usr/sbin/nologin", user)
        _ran(*adding)
        account = pwd.getpwnam(user)
    try:
        hand_over(folder, account.pw_uid, account.pw_gid)
    except OSError as error:
        raise FailedError(
            f"join: all is written, but {error.filename or folder}: {error.strerror}"
        ) from error
    check_program(account, unit)
    _ran("systemctl", "enable", "--now", new_files.service(unit))


def hand_over(folder: Path, owner: int, group: int) -> None:
    """Give a folder to a user, with all that is in it.

    The user may have had the folder before. So no link in it is followed: it may lead to a file of
    root's.

    Args:
        folder: which.
        owner: the user's number.
        group: of the user.

    Raises:
        OSError: it can't be given.

    """
    for _, folders, names, descriptor in os.fwalk(folder, follow_symlinks=False):
        os.chown(descriptor, owner, group)
        for name in (*folders, *names):
            os.chown(name, owner, group, dir_fd=descriptor, follow_symlinks=False)


def check_program(account: pwd.struct_passwd, unit: Path) -> None:
    """Refuse a program that a user may not run: in somebody's home, or of a umask that hides it.

    Args:
        account: the user's, whose group it has too, as the service will.
        unit: of the service.

    Raises:
        FailedError: the user may not run it.

    """
    user = account.pw_name
    program = new_files.machine().command
    try:
        done = subprocess.run(  # noqa: S603
            [*program, "--version"],
            user=account.pw_uid,
            group=account.pw_gid,
            extra_groups=(),
            capture_output=True,
            check=False,
        )
        is_run = done.returncode == 0
    except PermissionError:
        is_run = False
    if not is_run:
        raise FailedError(
            f"join: all is written, but the user {user} may not run {program[0]}: install it where "
            f"all may read it, such as /opt, or let {user} read it; then: systemctl enable --now "
            f"{new_files.service(unit)}"
        )


def _ran(*command: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    except OSError as error:
        raise FailedError(f"join: all is written, but {command[0]}: {error.strerror}") from error
    if done.returncode:
        why = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        raise FailedError(f"join: all is written, but `{' '.join(command)}` says: {why[0]}")
