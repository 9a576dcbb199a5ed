"""One more gateway for a fleet that `hedgerow init --fleet` has written.

The fleet is read from its folder: who there is and where, from the configurations; the authority,
the tree's key, the users and the policy are those that the others have. Nothing that is there is
written over, and where a step fails nothing new is left.
"""

from __future__ import annotations

import shutil
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from dtls import keystore
from dtls.errors import KeystoreError
from gateway.tools.provisioning import files, new_folder, plan
from gateway.tools.provisioning.files import AUTHORITY, CONFIGURATION, Machine
from gateway.tools.provisioning.plan import GatewayPlan, PlanError, Ports
from gateway.tools.provisioning.welcome import SHARED, Welcome
from gateway.trust.certificates.authority import GATEWAY, Authority, AuthorityError


class GrownFleet:
    """A fleet that is there, and the plan of one more gateway.

    Args:
        folder: of the fleet.
        name: of the new one.
        address: of the new one; nothing in a fleet on one machine.
        place: of the new one; None for that of the first one there.
        first_port: of four in a row; None for those that follow on its machine.

    Raises:
        PlanError: that is no fleet's folder, or there can be no such gateway.
        TakenError: there is a file or a certificate of its name.
        OSError: a file can't be read.

    """

    def __init__(
        self, folder: Path, name: str, address: str, place: str | None, first_port: int | None
    ) -> None:
        self._folder = folder
        self._authority = authority_of(folder)
        self.others = gateways_of(folder)
        plan.check_name(name)
        new_folder.refuse_taken(folder, [name])
        refuse_certified(self._authority, name)
        where = self._address(name, address)
        here = [one.ports for one in self.others if one.address == where]
        ports = plan.ports(0, first_port) if first_port or not here else _next(here)
        place = self.others[0].place if place is None else place
        plan.check_place(place)
        dialled = tuple(one.at(one.ports.mqtts) for one in self.others)
        self.plan = GatewayPlan(name, place, where, ports, dialled, bool(here))

    @property
    def user(self) -> str:
        """Return the user who may write: the first identity of the others' keys."""
        return _user(self._first)

    def add(self, machine: Machine) -> None:
        """Write the new gateway's folder, and its certificate.

        Args:
            machine: what runs it.

        Raises:
            AuthorityError: a file of the authority can't be used.
            TakenError: a file of its name is there by now.
            OSError: a file can't be read or written.

        """
        with issued(self._authority, self.plan.id, [self.plan.address]):
            fill = partial(self._fill, machine)
            new_folder.make(self._folder / self.plan.id, fill)

    def welcome(self) -> Welcome:
        """Return what the new gateway is handed with a token, but for its certificate.

        Raises:
            PlanError: it is too much.
            OSError: a file can't be read.

        """
        return _welcome(self._first, self.plan, self.user)

    @property
    def _first(self) -> Path:
        return self._folder / self.others[0].id

    def _fill(self, machine: Machine, fresh: Path) -> None:
        files.write_member(fresh, self._folder, self.plan, self.user, self._write_shared, machine)
        files.write_certificates(fresh, self._authority, self.plan.id)

    def _write_shared(self, fresh: Path) -> None:
        for name in SHARED:
            shutil.copy(self._first / name, fresh / name)  # with its mode

    def _address(self, name: str, address: str) -> str:
        is_local = self.others[0].is_local
        if not address and not is_local:
            raise PlanError(f"--add: {name}: no address, and others have one")
        found = address or self.others[0].address
        plan.check_address(found)
        made = GatewayPlan(name, address=found)
        if made.is_local != is_local:
            what = "other machines do not reach" if made.is_local else "the others do not reach"
            raise PlanError(f"--add: {name}: {what} {found}")
        return found


def welcome_of_member(folder: Path, name: str) -> Welcome | None:
    """Return what a gateway with a folder in a fleet's gets with a token; None if it has none.

    Raises:
        PlanError: that is no fleet's folder, or it is too much.
        OSError: a file can't be read.

    """
    if not (folder / name / CONFIGURATION).exists():
        return None
    members = {one.id: one for one in gateways_of(folder)}
    own = members.pop(name)
    made = replace(
        own,
        neighbours=tuple(one.at(one.ports.mqtts) for one in members.values()),
        has_neighbours_here=any(one.address == own.address for one in members.values()),
    )
    return _welcome(folder / name, made, _user(folder / name))


def _welcome(source: Path, plan: GatewayPlan, user: str) -> Welcome:
    made = Welcome(plan, user, {name: (source / name).read_text() for name in SHARED})
    made.check_size()
    return made


def _user(gateway: Path) -> str:
    file = gateway / "psk"
    try:
        keys = keystore.parse(file.read_text(), str(file))
    except (KeystoreError, UnicodeDecodeError) as error:
        raise PlanError(str(error)) from error
    for identity in keys.identities():
        return identity
    raise PlanError(f"{file}: no key, of whose user a gateway's policy speaks")


def authority_of(folder: Path) -> Path:
    """Return the folder of a fleet's authority.

    Raises:
        PlanError: there is none.

    """
    authority = folder / AUTHORITY
    for file in (authority / "ca.pem", authority / "ca.key.pem"):
        if not file.is_file():
            raise PlanError(f"{file}: no such file: this is no fleet that init has written")
    return authority


def refuse_certified(authority: Path, name: str) -> None:
    """Refuse a name that the authority has files of.

    Raises:
        TakenError: it has one.

    """
    new_folder.refuse_taken(authority, [f"{name}.pem", f"{name}.key.pem"])


@contextmanager
def issued(
    folder: Path, name: str, addresses: Sequence[str] = (), roles: Sequence[str] = GATEWAY
) -> Iterator[None]:
    """Issue a certificate, which is forgotten if what is done with it fails.

    Args:
        folder: of the authority.
        name: whose it is.
        addresses: where its holder is reached.
        roles: of its holder.

    Raises:
        AuthorityError: a file of the authority can't be used.
        OSError: one can't be read or written.

    """
    authority = Authority(folder)
    before = authority.issued()
    try:
        authority.issue(name, addresses, roles=roles)
        yield
    except BaseException:
        authority.forget(name, before)
        raise


def gateways_of(folder: Path) -> list[GatewayPlan]:
    """Return the gateways of a fleet, by their configurations.

    Raises:
        PlanError: there is none, or one is changed beyond what init writes.

    """
    found = [_read(file) for file in sorted(folder.glob(f"*/{CONFIGURATION}"))]
    if not found:
        raise PlanError(f"{folder}: there is no gateway: this is no fleet that init has written")
    return found


def _read(file: Path) -> GatewayPlan:
    """Return the plan of a gateway by its configuration, as far as others need it.

    Raises:
        PlanError: it is none that init writes, or has been changed beyond that.

    """
    try:
        read = tomllib.loads(file.read_text())
        own, mqtt, coap = read["gateway"], read["mqtt"], read["coap"]
        numbers = (mqtt["port"], mqtt["tls_port"], coap["port"], coap["dtls_port"])
        if file.parent.name != own["id"] or not all(isinstance(one, int) for one in numbers):
            raise PlanError(f"{file}: its id or ports are not as init writes them")
        place = "/".join(filter(None, (own.get("domain", ""), own.get("group", ""))))
        plan.check_address(own["address"])
        return GatewayPlan(own["id"], place, own["address"], Ports(*numbers))
    except KeyError as error:
        raise PlanError(f"{file}: no {error.args[0]}, which init writes") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, TypeError) as error:
        raise PlanError(f"{file}: {error}") from error


def _next(taken: Sequence[Ports]) -> Ports:
    """Return the ports that follow on one machine: in a row, or the usual ones."""
    last = max(taken, key=lambda one: one.mqtt)
    if last.mqtts == last.mqtt + 1:
        return plan.ports(1, last.mqtt)
    return Ports(last.mqtt + 1, last.mqtts + 1, last.coap + 2, last.coaps + 2)


__all__ = ["AuthorityError", "GrownFleet"]
