"""A Pi behind NAT is reached through the relay by whom it lets in, and by nobody else.

OpenSSH itself runs on both sides, with the files of the roles `relay` and `relayed`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from relay_bed import FILTERS, RELAY, USER, RelayBed, relay_bed, waiting

pytestmark = pytest.mark.peer("/usr/sbin/sshd", "openssh-server")
NAT = "192.0.2.2"
"""The address that the relay sees in place of the Pi's."""
WHERE = FILTERS.address("gw-a")
HOST, _, WAY_PORT = WHERE.rpartition(":")


@pytest.fixture(scope="module")
def bed() -> Iterator[RelayBed]:
    """A relay that knows two gateways; gw-a holds its way."""
    with relay_bed() as made:
        made.list_keys(["gw-a", "gw-b"])
        made.start_relay()
        made.hold("gw-a")
        yield made


def test_a_command_runs_on_a_pi_that_nobody_reaches_and_its_exit_code_comes_back(
    bed: RelayBed,
) -> None:
    done = bed.shell(f"{USER}@gw-a", "--", "sh", "-c", "echo over the way; exit 7")
    assert (done.stdout, done.returncode) == ("over the way\n", 7), done.stderr
    assert bed.noted("way opened", "gw-a") == {
        "who": "anna",
        "what": "way opened",
        "gateway": "gw-a",
        "from": RELAY,
    }
    assert bed.noted("way closed", "gw-a")["from_bytes"] > 0


def test_who_asks_for_a_gateway_that_is_not_connected_is_told_so(bed: RelayBed) -> None:
    done = bed.shell(f"{USER}@gw-b", "true")
    assert "relay: gw-b is not connected to the relay now" in done.stderr
    assert "hedgerow: gw-b: no connection through the relay" in done.stderr
    assert done.returncode == 1
    assert bed.noted("way refused", "gw-b")["who"] == "anna"


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (["-N", "-R", f"{FILTERS.address('gw-b')}:127.0.0.1:22"], "remote port forwarding failed"),
        (["-N", "-R", f"0.0.0.0:{WAY_PORT}:127.0.0.1:22"], "remote port forwarding failed"),
        (["-N", "-R", f"{HOST}:8080:127.0.0.1:22"], "remote port forwarding failed"),
        (["-N", "-R", "/run/hedgerow-relay-way:127.0.0.1:22"], "remote port forwarding failed"),
        (["-W", WHERE], "administratively prohibited"),
        (["-N", "-w", "any"], "Tunnel device open failed"),
    ],
    ids=["another's name", "all addresses", "another port", "a socket", "another Pi", "a tunnel"],
)
def test_a_pi_opens_nothing_but_its_own_way(bed: RelayBed, asked: list[str], told: str) -> None:
    done = bed.from_pi("gw-a", *asked)
    assert done.returncode != 0
    assert told in done.stderr


def test_a_pi_has_no_shell_on_the_relay(bed: RelayBed) -> None:
    done = bed.from_pi("gw-b", command="id")
    assert (done.stdout, done.returncode) == ("", 1)


def test_a_key_that_nobody_has_listed_is_refused(bed: RelayBed) -> None:
    done = bed.from_pi("stranger", "-N")
    assert "Permission denied (publickey)" in done.stderr


@pytest.mark.parametrize(
    ("asked", "as_noted"),
    [("gw-c",) * 2, ("gw-a; id",) * 2, ("",) * 2, ("\x1b[2J" + "x" * 500, "?[2J" + "x" * 60)],
)
def test_an_operator_who_asks_for_anything_else_is_refused_and_noted(
    bed: RelayBed, asked: str, as_noted: str
) -> None:
    done = bed.from_pi("anna", command=asked)
    assert "anna may not reach" in done.stderr
    assert done.returncode == 1
    assert "\x1b" not in done.stderr
    assert bed.noted("way refused", as_noted)["who"] == "anna"


def test_an_operator_opens_no_way_and_no_connection_by_the_relay(bed: RelayBed) -> None:
    assert "forwarding failed" in bed.from_pi("anna", "-N", "-R", f"{WHERE}:127.0.0.1:22").stderr
    assert "administratively prohibited" in bed.from_pi("anna", "-W", WHERE).stderr


def test_a_connection_has_one_session(bed: RelayBed) -> None:
    control = f"{bed.folder}/way/control"
    first = bed.ssh("anna", "-M", "-S", control, f"{USER}@{RELAY}", "gw-a")
    bed.start(bed.pi, "sh", "-c", 'sleep 600 | "$@"', "sh", *first)  # it has an open input
    for _ in waiting("a first session"):
        if any(one["what"] == "way opened" and one["from"] == NAT for one in bed.audit):
            break
    second = bed.from_pi("anna", "-S", control, command="gw-a")
    assert "Session open refused by peer" in second.stderr
