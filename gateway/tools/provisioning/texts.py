"""The configuration and the access policy of a new gateway, as text for people."""

from __future__ import annotations

import json
from pathlib import Path

from gateway.tools.provisioning.plan import LOOPBACK, GatewayPlan

SYSTEM_STATE_DIR = Path("/var/lib/hedgerow")
"""The state of a gateway that systemd runs; its unit makes the folder."""


def configuration(plan: GatewayPlan, user: str, *, is_systems: bool) -> str:
    """Return the configuration; paths in it start at its folder.

    Args:
        plan: whose.
        user: who may write, for the comments.
        is_systems: whether it will be in /etc/hedgerow.

    """
    state = str(SYSTEM_STATE_DIR) if is_systems else "state"
    parts = (
        f"""\
# A gateway of Hedgerow. docs/configuration.md has every key, `hedgerow check` says what is wrong,
# and `systemctl reload` (SIGHUP) reads certificates, passwords, policy and neighbours again.
[gateway]
id = {json.dumps(plan.id)}
domain = {json.dumps(plan.domain)}
group = {json.dumps(plan.group)}
address = {json.dumps(plan.address)}        # where others reach it
state_dir = {json.dumps(state)}
""",
        _mqtt(plan),
        f"""\
[coap]
host = {json.dumps(_hosts(plan))}
port = {plan.ports.coap}                  # reading, open to all who reach it
dtls_port = {plan.ports.coaps}             # writing, for who has a key
psk_file = "psk"             # {user}'s key
""",
        _tree(plan),
        *([_console(plan)] if plan.has_page else []),
        """\
[access]
password_file = "passwords"  # `hedgerow passwd --file passwords NAME` adds a user
policy_file = "access.toml"  # who may do what
""",
        """\
[[sensors]]
type = "host"                # load, memory, disk and network of this machine (docs/sensors.md)
interval_s = 10.0
format = "json"
retain = true                # a new subscriber gets the last reading at once
""",
    )
    return "\n".join(parts)


def policy(user: str, *, has_page: bool = False, device: str = "") -> str:
    """Return the policy: one user may write, and who else gives proof may read.

    Args:
        user: the one.
        has_page: whether that user administers the gateway by its page.
        device: a user who may write the topics of its name alone; empty for none.

    """
    named_user, named_key = json.dumps(f"user:{user}"), json.dumps(f"psk:{user}")
    at_page = ""
    if has_page:
        at_page = f'{json.dumps(f"console:{user}")} = ["admin"]  # the same password, at the page\n'
    of_device = ""
    if device:
        of_device = f"""\
{json.dumps(f"user:{device}")} = ["device"]  # its own topics alone
{json.dumps(f"console:{device}")} = []  # and nothing at the page
"""
    return f"""\
# Who may do what: what no rule allows is refused (docs/access.md; `hedgerow policy explain`).
version = 1

[principals]                 # whoever else gives proof is a reader
{named_user} = ["operator"]  # a password of `passwords`
{named_key} = ["admin"]      # a key of `psk`: may drain the gateway, too
{at_page}{of_device}
# Whoever comes through another gateway may read, no more: what a stolen one says is not believed.
# Name those through which operators may write to this one, "*" for all:
# [vouch]
# "gw-root" = ["operator"]
"""


def _mqtt(plan: GatewayPlan) -> str:
    local = plan.address if plan.is_local else LOOPBACK
    text = f"""\
[mqtt]
host = {json.dumps(local)}           # without TLS passwords can be read: this machine alone
port = {plan.ports.mqtt}
"""
    if not plan.is_local:
        text += f"tls_host = {json.dumps(plan.address)}\n"
    if plan.has_tls:
        text += f"""\
tls_port = {plan.ports.mqtts}
certificate_file = "tls/gateway.pem"
key_file = "tls/gateway.key.pem"
client_certificate = "optional"  # clients may come with passwords; links need a certificate
client_ca_file = "tls/ca.pem"
client_crl_file = "tls/revoked.pem"
"""
    return text


def _console(plan: GatewayPlan) -> str:
    return f"""\
[console]
web = true                   # the page for browsers (docs/page.md)
host = {json.dumps(plan.address)}
certificate_file = "tls/gateway.pem"
key_file = "tls/gateway.key.pem"
"""


def _hosts(plan: GatewayPlan) -> list[str]:
    return [plan.address] if plan.is_local else [LOOPBACK, plan.address]


def _tree(plan: GatewayPlan) -> str:
    if plan.neighbours:
        rows = "".join(f"  {json.dumps(one)},\n" for one in plan.neighbours)
        neighbours = f"neighbours = [                 # where the others take links\n{rows}]\n"
    else:
        neighbours = '# neighbours = ["10.0.0.2:8883"]   # other gateways: docs/tree.md\n'
    return f"""\
[tree]
key_file = "tree.key"        # the same on all gateways of a tree
discovery = false            # true: look for others by multicast
{neighbours}"""
