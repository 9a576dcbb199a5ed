"""The bed itself: what it delays, drops and refuses, and that it leaves nothing behind."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.mesh import namespaces, network
from benchmarks.mesh.namespaces import FOLDER, BedError, Namespace
from benchmarks.mesh.network import Network
from benchmarks.mesh.relay import Shape


def names() -> set[str]:
    """This process's namespaces."""
    return {path.name for path in FOLDER.glob(f"hedge{os.getpid()}-*")}


COMES_IN_S = 30.0
SILENT_S = 0.7


def reaches(net: Network, a: int, b: int, within_s: float = COMES_IN_S) -> bool:
    """Return whether a TCP connection from one host to another comes about or is refused by it."""
    server = net.hosts[b].socket()
    client = net.hosts[a].socket()
    try:
        server.bind((net.address(b), 0))
        server.listen()
        client.settimeout(within_s)
        client.connect((net.address(b), server.getsockname()[1]))
    except TimeoutError:
        return False
    finally:
        server.close()
        client.close()
    return True


@pytest.mark.peer("ping", "iputils-ping")
def test_an_edge_delays_each_packet_as_it_is_told_and_keeps_their_order() -> None:
    with network.mesh(2, shape=Shape(10.0, 2.5)) as net:
        command = net.hosts[0].command("ping", "-c", "30", "-i", "0.02", net.address(1))
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    replies = re.findall(r"icmp_seq=(\d+) .* time=([\d.]+)", done.stdout)
    assert [int(number) for number, _ in replies] == list(range(1, 31))
    times_ms = sorted(float(time) for _, time in replies)
    assert times_ms[0] > 8
    assert times_ms[15] > 15


def test_a_silent_cut_of_one_direction_stops_connections_of_both_and_heals() -> None:
    with network.mesh(3) as net:
        assert reaches(net, 0, 1)
        net.silence(1, 0)
        assert not reaches(net, 0, 1, SILENT_S)  # its answers are dropped
        assert not reaches(net, 1, 0, SILENT_S)
        assert reaches(net, 1, 2)
        net.heal()
        assert reaches(net, 0, 1)


def test_a_refused_edge_resets_connections() -> None:
    with network.mesh(2) as net:
        net.refuse(0, 1)
        with pytest.raises(ConnectionRefusedError):
            reaches(net, 0, 1)
        net.unrefuse(0, 1)
        assert reaches(net, 0, 1)


def test_hosts_on_a_bridge_reach_each_other() -> None:
    with network.bridge(2) as net:
        assert reaches(net, 0, 1)


def test_nothing_is_left_after_a_failure() -> None:
    with pytest.raises(BedError), network.mesh(2) as net:
        assert len(names()) == 2
        namespaces.run(*net.hosts[0].command("false"))
    assert not names()


def test_what_a_killed_run_left_is_taken_away_by_the_next() -> None:
    script = (
        "import sys, time\n"
        "from benchmarks.mesh.namespaces import Namespace\n"
        "import subprocess\n"
        "space = Namespace('left')\n"
        "print(space.name, flush=True)\n"
        "subprocess.Popen(space.command('sh', '-c', 'echo $$; exec sleep 600'))\n"
        "time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as run:
        assert run.stdout is not None
        name = run.stdout.readline().decode().strip()
        inside = run.stdout.readline().decode().strip()  # said by itself, once it is within
        run.kill()
    assert (FOLDER / name).exists()
    assert name in namespaces.remove_leftovers()
    assert not (FOLDER / name).exists()
    state = Path("/proc", inside, "stat")
    assert not state.exists() or state.read_text().split()[2] == "Z"


def test_a_namespace_of_a_process_that_lives_is_no_leftover() -> None:
    space = Namespace("alive")
    try:
        assert space.name not in namespaces.remove_leftovers()
        assert (FOLDER / space.name).exists()
    finally:
        space.remove()


def test_without_root_the_reason_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "need root" in (namespaces.why_not() or "")


def test_a_missing_program_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert namespaces.why_not() == "ip is not installed: sudo apt-get install iproute2"
