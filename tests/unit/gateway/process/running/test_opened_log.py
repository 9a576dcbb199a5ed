"""A start says what it cut off its log, and that a log is gone which was there."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from gateway.process.configuration.config import (
    ConfigError,
    GatewaySection,
    GatewaySettings,
    TreeSection,
)
from gateway.process.running import state
from tree_handler import batch
from tree_handler.batch import Entry, Flags
from tree_handler.intervals import Intervals


@pytest.fixture
def own(tmp_path: Path) -> GatewaySettings:
    return GatewaySettings(
        GatewaySection("gw-a", tmp_path), TreeSection(tmp_path / "key", tls="off")
    )


def filled(own: GatewaySettings) -> Path:
    """Have the log hold one message; return its file."""
    frame = batch.encode("gw", 1, 1, [Entry("t", b"x", 1)], flags=Flags.LOGGED, origin_time_us=0)
    log = state.open_log(own)
    log.append(frame, batch.check(frame))
    log.close()
    (segment,) = (own.gateway.state_dir / "log").glob("*.log")
    return segment


def test_a_log_that_is_whole_is_opened_without_a_word(
    own: GatewaySettings, caplog: pytest.LogCaptureFixture
) -> None:
    filled(own)
    log = state.open_log(own)
    assert log.have == {("gw", 1): Intervals([(1, 1)])}
    log.close()
    assert caplog.messages == []


def test_what_is_cut_off_is_told_with_its_length(
    own: GatewaySettings, caplog: pytest.LogCaptureFixture
) -> None:
    segment = filled(own)
    whole = segment.read_bytes()
    segment.write_bytes(whole + whole[:11])
    log = state.open_log(own)
    assert log.have == {("gw", 1): Intervals([(1, 1)])}
    log.close()
    assert caplog.messages == ["log: cut off 11 bytes of a batch that was not appended"]


def test_a_log_is_missed_if_it_ever_was_opened(
    own: GatewaySettings, caplog: pytest.LogCaptureFixture
) -> None:
    filled(own)
    assert "missing" not in caplog.text
    folder = own.gateway.state_dir / "log"
    shutil.rmtree(folder)
    state.open_log(own).close()
    assert f"{folder}: missing, and it was there: " in caplog.text


def test_a_log_that_is_in_use_or_no_folder_names_the_folder_of_the_state(
    own: GatewaySettings,
) -> None:
    log = state.open_log(own)
    with pytest.raises(ConfigError) as refused:
        state.open_log(own)
    assert refused.value.where == "gateway.state_dir"
    log.close()
    folder = own.gateway.state_dir / "log"
    shutil.rmtree(folder)
    folder.write_text("no folder")
    with pytest.raises(ConfigError) as refused:
        state.open_log(own)
    assert refused.value.where == "gateway.state_dir"


def test_a_gateway_tells_the_fleet_its_ports_by_their_schemes() -> None:
    section = GatewaySection("gw-a", Path("state"), domain="campus", group="north")
    ports = {"mqtt": 1883, "coap": 5683, "coaps": 5684, "link": 8883, "wss": 9}
    told = state.record(section, 7, 2.5, "10.0.0.1", ports)
    assert (told.id, told.epoch, told.version, told.capability) == ("gw-a", 7, 0, 2.5)
    assert (told.domain, told.group, told.address) == ("campus", "north", "10.0.0.1")
    assert (told.mqtt_port, told.coap_port, told.coaps_port, told.link_port) == (
        1883,
        5683,
        5684,
        8883,
    )
    alone = state.record(section, 7, 2.5, "10.0.0.1", {})
    assert (alone.mqtt_port, alone.coap_port, alone.coaps_port, alone.link_port) == (0, 0, 0, 0)
