"""A dynamic inventory: the fleet as one of its gateways knows it."""

from __future__ import annotations

import json
import subprocess
from typing import Any

from ansible.errors import AnsibleParserError
from ansible.plugins.inventory import BaseInventoryPlugin

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
"""
GRACE_S = 10.0


class InventoryModule(BaseInventoryPlugin):  # type: ignore[misc]  # Ansible is untyped
    """Called by Ansible."""

    NAME = "hedgerow"

    def verify_file(self, path: str) -> bool:
        """Whether a file may be one of this plugin's: ``hedgerow.yml`` or ``NAME.hedgerow.yml``."""
        return bool(super().verify_file(path)) and path.endswith(("hedgerow.yml", "hedgerow.yaml"))

    def parse(self, inventory: Any, loader: Any, path: str, cache: bool = True) -> None:
        """Ask, and fill the inventory.

        Raises:
            AnsibleParserError: nobody answers, or not as a gateway does.

        """
        super().parse(inventory, loader, path, cache)
        self._read_config_data(path)
        for member in self._members():
            host = self.inventory.add_host(member["id"])
            for group in groups_of(member):
                self.inventory.add_child(self.inventory.add_group(group), host)
            for name, value in variables_of(member).items():
                self.inventory.set_variable(host, name, value)

    def _members(self) -> list[dict[str, Any]]:
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
            members: list[dict[str, Any]] = json.loads(done.stdout)
        except ValueError as error:
            raise AnsibleParserError(f"{command[0]}: no list of members: {error}") from error
        return members


def groups_of(member: dict[str, Any]) -> list[str]:
    """The groups of a member; Ansible's names take no hyphen."""
    domain, group = (_named(member.get(part)) for part in ("domain", "group"))
    found = ["gateways"]
    if domain:
        found.append(f"domain_{domain}")
    if domain and group:
        found.append(f"group_{domain}_{group}")
    if not member["is_present"]:
        found.append("away")
    return found


def variables_of(member: dict[str, Any]) -> dict[str, Any]:
    """What playbooks and the role take of a member."""
    domain, group = ((member.get(part) or "").strip("-") for part in ("domain", "group"))
    found = {"gateway_id": member["id"], "gateway_domain": domain, "gateway_group": group}
    return {**found, "ansible_host": member["address"]}


def _named(part: str | None) -> str:
    return (part or "").strip("-").replace("-", "_")
