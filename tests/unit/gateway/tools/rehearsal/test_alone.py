"""The gateway of a backup starts alone: in folders that were unpacked, and meets nobody."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from gateway.tools.rehearsal.alone import LOOPBACK, RestoredFolders, alone

FOLDERS = RestoredFolders(
    PurePosixPath("/etc/hedgerow"),
    PurePosixPath("/var/lib/hedgerow"),
    Path("/tmp/tried/config"),
    Path("/tmp/tried/state"),
)


def tried(**tables: Any) -> dict[str, Any]:
    return alone(tables, FOLDERS, encrypted=("oscore",))


@pytest.mark.parametrize(
    "gateway",
    [{}, {"state_dir": "/var/lib/hedgerow"}, {"state_dir": "/srv/other"}, {"state_dir": 7}],
    ids=["none", "as it was", "elsewhere", "no path"],
)
def test_it_writes_to_the_state_that_was_unpacked_whatever_its_configuration_says(
    gateway: dict[str, Any],
) -> None:
    assert tried(gateway=gateway)["gateway"]["state_dir"] == "/tmp/tried/state"
    assert tried()["gateway"]["state_dir"] == "/tmp/tried/state"


def test_it_listens_on_free_ports_of_loopback_and_dials_nobody() -> None:
    made = tried(
        gateway={"id": "gw", "address": "10.0.0.1", "sensors_dir": "/etc/hedgerow/drivers"},
        mqtt={"host": "0.0.0.0", "port": 1883, "certificate_file": "/etc/hedgerow/gw.pem"},
        tree={"neighbours": ["gw-b:1883"], "key_file": "/etc/hedgerow/tree.key", "hello_s": 1.0},
        coap={"port": 5683, "multicast": True},
        console={"enabled": True, "web": True},
        alerts={"mail": {}},
        sensors=[{"type": "switch"}],
        home_assistant={},
        keys={"enrolment": True},
    )
    assert made["gateway"].keys() == {"id", "state_dir", "status_interval_s"}
    assert made["mqtt"] == {"host": LOOPBACK, "port": 0, "sys_interval_s": 0.0}
    assert made["tree"]["neighbours"] == []
    assert made["tree"]["key_file"] == "/tmp/tried/config/tree.key"
    assert made["tree"]["hello_s"] == 1.0
    assert made["coap"] == {"host": LOOPBACK, "port": 0, "dtls_port": 0}
    assert made["console"] == made["alerts"] == {"enabled": False}
    assert made.keys() == {"gateway", "mqtt", "tree", "coap", "console", "alerts"}


def test_keys_that_no_other_machine_opens_are_left_out_and_the_others_are_read() -> None:
    made = tried(coap={"psk_file": "/etc/hedgerow/psk", "oscore_file": "/etc/hedgerow/oscore"})
    assert made["coap"].get("psk_file") == "/tmp/tried/config/psk"
    assert "oscore_file" not in made["coap"]


def test_what_is_no_table_is_left_for_the_check_of_the_configuration_to_name() -> None:
    assert tried(gateway=7, tree=[], coap="x") | {"mqtt": 0, "console": 0, "alerts": 0} == {
        "gateway": 7,
        "tree": [],
        "coap": "x",
        "mqtt": 0,
        "console": 0,
        "alerts": 0,
    }
