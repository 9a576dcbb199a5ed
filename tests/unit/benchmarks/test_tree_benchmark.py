"""The tree's benchmark: its cases, and chains that carry what it measures."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import broker_figures as figures
from benchmarks import load_generator, tree, tree_cases, tree_chains
from benchmarks.load_generator import Programs
from benchmarks.tree_cases import ChainLoad
from benchmarks.tree_chains import Kind
from gateway.process.configuration.config import GatewaySettings, load

pytestmark = pytest.mark.slow

needs_cc = pytest.mark.peer("cc", "gcc")


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Programs:
    return load_generator.compile_programs(tmp_path_factory.mktemp("programs"))


def test_a_case_is_told_by_its_hops_qos_and_payload() -> None:
    assert ChainLoad(1, 1, 1, 79, 100, hops=2).name == "2 hops, QoS 1 79 B pipelined"
    assert ChainLoad(1, 1, 0, 79, 100, 50, hops=1).name == "1 hop, QoS 0 79 B at 50 messages/s"


def test_every_qos_and_payload_is_measured_over_every_length() -> None:
    for hops in tree.FULL.hops:
        found = {(load.qos, load.payload_bytes) for load in tree_cases.rate_loads(hops)}
        assert found == {(qos, size) for qos in (0, 1, 2) for size in tree_cases.PAYLOADS}
        assert {load.qos for load in tree_cases.latency_loads(hops)} == {0, 1, 2}


def carried(kind: Kind, programs: Programs, folder: Path) -> list[str]:
    """Make a tiny run of each QoS over one hop, and return the fault of each."""
    with tree_chains.running(kind, 1, folder / "chain") as chain:
        assert chain.publish_port != chain.subscribe_port
        runs = [
            load_generator.run(
                programs,
                ChainLoad(1, 1, qos, 79, 100, hops=1),
                chain.publish_port,
                subscribe_port=chain.subscribe_port,
                warm_up_s=0.02,
                measure_s=0.2,
            )
            for qos in (0, 1, 2)
        ]
        assert chain.cpu_s() > 0
    return [run.fault for run in runs]


@needs_cc
def test_a_chain_of_gateways_carries_every_message_once_and_in_order(
    programs: Programs, tmp_path: Path
) -> None:
    assert carried(tree_chains.gateways(figures.OURS), programs, tmp_path) == ["", "", ""]


@needs_cc
def test_a_chain_of_gateways_with_links_in_tls_does(programs: Programs, tmp_path: Path) -> None:
    kind = tree_chains.our_kinds()[-1]
    assert kind.name == "hedgerow, links in TLS, signed"
    assert carried(kind, programs, tmp_path) == ["", "", ""]
    files = [tmp_path / "chain" / number / "gateway.toml" for number in ("0", "1")]
    first, second = (load(file, GatewaySettings) for file in files)
    assert first.tree.tls == second.tree.tls == "required"
    assert second.tree.neighbours == [f"127.0.0.1:{first.mqtt.tls_port}"]


@needs_cc
@pytest.mark.peer("mosquitto", "mosquitto")
def test_a_chain_of_bridged_mosquittos_does(programs: Programs, tmp_path: Path) -> None:
    assert carried(tree_chains.mosquitto_bridges(), programs, tmp_path) == ["", "", ""]


def test_a_chain_of_zenoh_routers_carries_what_is_put_into_it(tmp_path: Path) -> None:
    load = ChainLoad(1, 1, 0, 79, 100, hops=1)
    with tree_chains.running(tree_chains.zenoh_routers(), 1, tmp_path / "chain") as chain:
        run = tree.run_zenoh(load, chain, warm_up_s=0.05, measure_s=0.2)
    assert run.fault == ""
    assert run.rate_hz > 0
