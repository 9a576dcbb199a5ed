"""The relay's lists of keys and gateways, whatever keys and gateways say of themselves."""

from __future__ import annotations

import base64
import ipaddress
from pathlib import Path

import pytest
from loaded_file import loaded

FILTERS = Path(__file__).parents[3] / "deploy/ansible/filter_plugins/hedgerow_relay.py"
relay = loaded(FILTERS)
REACH = "reach.py ways.json"


def key(number: int) -> str:
    """A public key, of no use."""
    kind = b"ssh-ed25519"
    blob = len(kind).to_bytes(4, "big") + kind + (32).to_bytes(4, "big") + bytes([number]) * 32
    return f"ssh-ed25519 {base64.b64encode(blob).decode()}"


def operator(name: str, number: int, *gateways: str) -> dict[str, object]:
    return {"name": name, "keys": [f"{key(number)} {name}@desk"], "gateways": list(gateways)}


def test_the_key_of_a_gateway_opens_its_own_way_and_nothing_else() -> None:
    where = relay.address("gw-north")
    assert relay.authorized_keys({"gw-north": f"{key(1)} pi@raspberrypi\n"}, [], REACH) == (
        f'restrict,port-forwarding,permitlisten="{where}",command="/bin/false" {key(1)} gw-north\n'
    )


def test_the_key_of_an_operator_runs_what_lets_through_to_the_gateways_that_are_named() -> None:
    lines = relay.authorized_keys({}, [operator("anna", 1, "gw-a", "gw-b")], REACH)
    assert lines == (
        f"restrict,command=\"reach.py ways.json anna 'gw-a' 'gw-b'\" {key(1)} operator:anna\n"
    )


def test_each_gateway_has_a_loopback_address_of_its_own_that_is_nobody_elses() -> None:
    found = relay.ways(f"gw-{number}" for number in range(2_000))
    assert len(set(found.values())) == 2_000
    hosts = [ipaddress.ip_address(where.rpartition(":")[0]) for where in found.values()]
    assert all(host.is_loopback for host in hosts)
    assert not any(host in ipaddress.ip_network("127.0.0.0/16") for host in hosts)
    assert found["gw-7"] == relay.address("gw-7")


def test_two_gateways_of_one_address_are_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay, "address", lambda _: "127.1.1.1:1")
    with pytest.raises(ValueError, match="gw-a and gw-b have one address"):
        relay.ways(["gw-b", "gw-a"])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ssh-ed25519",
        f"{key(1)} gw-a\n{key(2)}",
        f'command="/bin/sh" {key(1)}',
        "ssh-ed25519 not-base64!",
        f"ssh-ed25519 {base64.b64encode(b'something else').decode()}",
        f"ssh-dss {key(1).split()[1]}",
        f"{key(1)}{'A' * 4096}",
    ],
)
def test_what_is_no_key_of_one_line_is_refused_by_the_name_of_who_said_it(text: str) -> None:
    with pytest.raises(ValueError, match=r"gw-a.* is no SSH public key"):
        relay.authorized_keys({"gw-a": text}, [], REACH)


def test_what_a_key_says_beside_itself_is_not_written_on() -> None:
    lines = relay.authorized_keys({"gw-a": f"{key(1)} x,command=/bin/sh"}, [], REACH)
    assert lines.endswith(f"{key(1)} gw-a\n")


def test_one_key_is_not_two_owners() -> None:
    with pytest.raises(ValueError, match="gw-a and gw-b have the same key"):
        relay.authorized_keys({"gw-a": key(1), "gw-b": key(1)}, [], REACH)
    with pytest.raises(ValueError, match="gw-a and operator:anna have the same key"):
        relay.authorized_keys({"gw-a": key(1)}, [operator("anna", 1, "*")], REACH)


@pytest.mark.parametrize("name", ["", "An na", "anna';sh", "-a", "a" * 64, 7])
def test_a_name_that_a_shell_could_take_for_more_is_refused(name: object) -> None:
    with pytest.raises(ValueError, match="is no name"):
        relay.authorized_keys({}, [{**operator("anna", 1), "name": name}], REACH)
    with pytest.raises(ValueError, match="is no name"):
        relay.authorized_keys({}, [operator("anna", 1, name)], REACH)  # type: ignore[arg-type]  # what an inventory may say


def test_a_gateway_that_left_the_inventory_is_listed_no_more_and_that_ends_connections(
    tmp_path: Path,
) -> None:
    (tmp_path / "gateways").mkdir()
    for number, name in enumerate(("gw-a", "gw-b")):
        (tmp_path / f"gateways/{name}.pub").write_text(key(number))
    both = relay.listed(["gw-a", "gw-b", "gw-new"], str(tmp_path))
    one = relay.listed(["gw-a"], str(tmp_path))
    assert (set(both), set(one)) == ({"gw-a", "gw-b"}, {"gw-a"})
    of_both, of_one = (relay.authorized_keys(keys, [], REACH) for keys in (both, one))
    assert relay.lacks(of_one, of_both)
    assert not relay.lacks(of_both, of_one)


def test_an_operator_who_may_reach_fewer_ends_connections() -> None:
    before = relay.authorized_keys({}, [operator("anna", 1, "gw-a", "gw-b")], REACH)
    assert relay.lacks(relay.authorized_keys({}, [operator("anna", 1, "gw-a")], REACH), before)


def test_host_keys_are_written_down_under_the_name_that_the_fleet_gives() -> None:
    assert relay.known_hosts(f"{key(2)} root@other\n{key(1)} x\n", "gw-a") == (
        f"gw-a {key(1)}\ngw-a {key(2)}\n"
    )
    with pytest.raises(ValueError, match="gw-a has no SSH host key"):
        relay.known_hosts("\n", "gw-a")
    with pytest.raises(ValueError, match=r"gw-a: '\* ssh-ed25519"):
        relay.known_hosts(f"* {key(1)}\n", "gw-a")
