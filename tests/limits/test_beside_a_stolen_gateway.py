"""Goal: a stolen gateway keeps nobody's messages waiting, and no gateway from starting again.

Method: two honest gateways and the stolen one, each a process, all linked to each other over mutual
TLS. The thief says of each honest one what it never said (`thief`), also that it had a life 2^62,
or 2^32 - 1, behind which there is no other. A client publishes at one with QoS 1 meanwhile what
another one gets at the other; then that gateway is killed and started, twice, while the thief goes
on. How long PUBACKs and starts took is printed (``-s``); ``--soak`` holds the 99th percentile
against its limit.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from attacked_fleet import POLICY, AttackedFleet, stopping
from attacking import attacking
from authority import Authority, Issued
from gateways import Gateway
from mosquitto_hashes import pbkdf2_line
from stolen_gateway import THIEF, StolenGateway
from victim import PASSWORD, USER, say

OTHER_MODES = "the same in the other modes, with and without signatures"
FORGED = 'hedgerow_tree_events_total{event="forged"}'


@contextmanager
def honest(
    folder: Path, name: str, authority: Authority, issued: Issued, tree: str
) -> Iterator[Gateway]:
    """A gateway with a certificate, and its policy and users."""
    folder.mkdir()
    passwords, policy = folder / "passwords", folder / "policy.toml"
    passwords.touch(mode=0o600)
    passwords.write_text(pbkdf2_line(USER, PASSWORD) + "\n")
    policy.write_text(POLICY)
    tls = f"""tls_port = 0
certificate_file = "{issued.certificate}"
key_file = "{issued.key}"
client_certificate = "optional"
client_ca_file = "{authority.file}"
"""
    access = f'password_file = "{passwords}"\npolicy_file = "{policy}"'
    with stopping(Gateway(folder, "", tree, access=access, name=name, mqtt=tls)) as gateway:
        yield gateway


@pytest.mark.drawn(1)
@pytest.mark.parametrize(
    ("mode", "is_signed"),
    [
        pytest.param("flood", True, id="flood"),
        pytest.param("routed", False, id="routed, unsigned"),
        pytest.param("routed", True, id="routed", marks=pytest.mark.soak(OTHER_MODES)),
        pytest.param("topic", True, id="topic", marks=pytest.mark.soak(OTHER_MODES)),
        pytest.param("flood", False, id="flood, unsigned", marks=pytest.mark.soak(OTHER_MODES)),
    ],
)
def test_who_has_stolen_a_gateway_holds_up_nobody_and_ends_none(
    tmp_path: Path, mode: str, is_signed: bool, request: pytest.FixtureRequest
) -> None:
    authority = Authority(tmp_path)
    files = {name: authority.issue(name, is_gateway=True) for name in ("gw", "gw-b", THIEF)}
    tree = f'mode = "{mode}"\nrepair_interval_s = 0.5\n'
    tree += "" if is_signed else 'signatures = "off"\n'
    tree += "capability"
    with honest(tmp_path / "gw", "gw", authority, files["gw"], f"{tree} = 3.0") as gateway:
        to_it = gateway.listeners["mqtts"]
        dials = f'{tree} = 2.0\nneighbours = ["{to_it}"]'
        with honest(tmp_path / "gw-b", "gw-b", authority, files["gw-b"], dials) as neighbour:
            is_soak = bool(request.config.getoption("--soak"))
            fleet = AttackedFleet(tmp_path, gateway, neighbour, is_soak=is_soak)
            known = {name: (one.certificate, one.key) for name, one in files.items()}
            own = known.pop(THIEF)
            links = [to_it, neighbour.listeners["mqtts"]]
            with attacking(
                StolenGateway, tmp_path, authority.file, own, mode, is_signed, links, known
            ) as attack:
                fleet.serves_beside(attack)
                for one in (gateway, neighbour) if is_signed else ():
                    assert one.metric(FORGED) > 0
                for _ in range(2):
                    fleet.starts_again()
                seen = attack.stop()
    say(str(seen))
    assert seen["lives claimed"] > 0
