"""A dynamic inventory: the fleet as one of its gateways knows it.

What a member says of itself is another machine's word. It is read as `ListedMember` has it and by
no other form, and Ansible takes it as data: since ansible-core 2.19 only what an operator wrote is
a template, and before that an address could be a command for the controller.
"""

from __future__ import annotations

import ipaddress
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleParserError
from ansible.plugins.inventory import BaseInventoryPlugin
from ansible.release import __version__ as ansible_version

# Ansible may run where the project is not installed.
sys.path.append(str(Path(__file__).resolve().parents[3]))

from tree_handler.errors import ProtocolError
from tree_handler.members.listed import ListedMember
from tree_handler.members.place import NONE

DOCUMENTATION = """
name: hedgerow
short_description: The gateways of a Hedgerow fleet
description:
  - Asks one gateway over CoAP for the members of its fleet, by C(hedgerow members --json).
  - Each is a host of the groups C(gateways), C(domain_DOMAIN) and C(group_DOMAIN_GROUP), where
    hyphens become underscores. Those that are out of reach are in the group C(away), too.
options:
  plugin:
    description: Always C(hedgerow).
    required: true
    choices: [hedgerow]
  gateway:
    description: CoAP address of the gateway that is asked, C(HOST[:PORT]).
    required: true
    type: str
  psk_file:
    description: File of C(IDENTITY:HEXKEY) lines, for one who may read C(/members).
    required: true
    type: path
  psk_identity:
    description: Which identity of the file; the first by default.
    type: str
  command:
    description: The C(hedgerow) command on this machine, as words.
    type: list
    elements: str
    default: [hedgerow]
  timeout_s:
    description: Seconds to wait for the answer.
    type: float
    default: 10.0
  allow_loopback:
    description: Whether members may be on this machine, as those of a trial on one machine are.
    type: bool
    default: false
"""
GRACE_S = 10.0
OLDEST = (2, 19)
"""Of ansible-core: earlier ones make a template of what an inventory says."""
MEMBERS_MAX = 100_000
TAKEN = frozenset(("all", "localhost", "ungrouped", "gateways", "away"))
"""Names that mean something else to Ansible or to the playbooks than a gateway."""


class InventoryModule(BaseInventoryPlugin):  # type: ignore[misc]  # Ansible is untyped
    """Called by Ansible."""

    NAME = "hedgerow"

    def verify_file(self, path: str) -> bool:
        """Return whether a file is for this plugin: ``hedgerow.yml`` or ``NAME.hedgerow.yml``."""
        return bool(super().verify_file(path)) and path.endswith(("hedgerow.yml", "hedgerow.yaml"))

    def parse(self, inventory: Any, loader: Any, path: str, cache: bool = True) -> None:
        """Ask, and fill the inventory.

        Raises:
            AnsibleParserError: Ansible is too old, or nobody answers as a gateway does.

        """
        refuse_older(ansible_version)
        super().parse(inventory, loader, path, cache)
        self._read_config_data(path)
        for member in self._members():
            host = self.inventory.add_host(member.id)
            for group in groups_of(member):
                self.inventory.add_child(self.inventory.add_group(group), host)
            for name, value in variables_of(member).items():
                self.inventory.set_variable(host, name, value)

    def _members(self) -> Iterator[ListedMember]:
        """Yield the members that the gateway tells of; what is none is told of, and left out."""
        told = self._told()
        if not isinstance(told, list) or len(told) > MEMBERS_MAX:
            raise AnsibleParserError(f"{self.get_option('gateway')}: no list of members")
        for one in told:
            try:
                member = ListedMember.of(one)
            except ProtocolError as error:
                self.display.warning(f"a member is left out: {error}")
                continue
            if member.id in TAKEN:
                self.display.warning(f"a member is left out: no host may be called {member.id}")
                continue
            if not may_be_reached(member.address, allow_loopback=self.get_option("allow_loopback")):
                self.display.warning(
                    f"a member is left out: {member.id} says that it is at {member.address}, which"
                    " is no other machine (allow_loopback, if it is a gateway on this one)"
                )
                continue
            yield member

    def _told(self) -> Any:
        limit_s = self.get_option("timeout_s")
        command = [*self.get_option("command"), "members", self.get_option("gateway"), "--json"]
        command += ["--psk-file", self.get_option("psk_file"), "--timeout", str(limit_s)]
        if identity := self.get_option("psk_identity"):
            command += ["--psk-identity", identity]
        try:
            done = subprocess.run(  # noqa: S603  # the operator's own words
                command, capture_output=True, text=True, check=False, timeout=limit_s + GRACE_S
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise AnsibleParserError(f"{command[0]}: {error}") from error
        if done.returncode:
            raise AnsibleParserError(f"{self.get_option('gateway')}: {done.stderr.strip()}")
        try:
            return json.loads(done.stdout)
        except (ValueError, RecursionError) as error:
            raise AnsibleParserError(f"{command[0]}: no list of members: {error}") from error


def refuse_older(version: str) -> None:
    """Refuse an ansible-core that would run what members say.

    Args:
        version: its own, as ``2.19.4``.

    Raises:
        AnsibleParserError: it is one; the message says which is needed.

    """
    major, minor = (int(part) for part in version.split(".")[:2])
    if (major, minor) < OLDEST:
        needed = ".".join(map(str, OLDEST))
        why = f"this is {version}, which takes what gateways say of themselves for templates"
        raise AnsibleParserError(f"hedgerow inventory: needs ansible-core {needed} or later: {why}")


def may_be_reached(address: str, *, allow_loopback: bool) -> bool:
    """Return whether playbooks may be carried out at an address that a member says is its own.

    This machine has a server of its own there, with keys that the operator's agent opens.

    Args:
        address: as `ListedMember` takes it.
        allow_loopback: true if it may be this machine's.

    """
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        name = address.lower().removesuffix(".")
        is_loopback = name.rpartition(".")[2] == "localhost" or name == "localhost.localdomain"
        return allow_loopback or not is_loopback
    if isinstance(ip, ipaddress.IPv6Address):
        ip = ip.ipv4_mapped or ip
    return not (ip.is_unspecified or ip.is_multicast or (ip.is_loopback and not allow_loopback))


def groups_of(member: ListedMember) -> list[str]:
    """Return the groups of a member; Ansible's names take no hyphen."""
    domain, group = (_group_part(name) for name in (member.domain, member.group))
    found = ["gateways"]
    if domain:
        found.append(f"domain_{domain}")
    if domain and group:
        found.append(f"group_{domain}_{group}")
    if not member.is_present:
        found.append("away")
    return found


def variables_of(member: ListedMember) -> dict[str, str]:
    """Return the variables that playbooks and the role take of a member."""
    domain, group = ("" if name == NONE else name for name in (member.domain, member.group))
    found = {"gateway_id": member.id, "gateway_domain": domain, "gateway_group": group}
    return {**found, "ansible_host": member.address}


def _group_part(name: str) -> str:
    return "" if name == NONE else name.replace("-", "_")
