"""A node is run as the configuration says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gateway.node.links.wire import Additions
from gateway.process.configuration.config import GatewaySection, GatewaySettings, TreeSection
from gateway.process.running.node_settings import node_settings
from tree_handler.spanning.spanning_tree import Identity

IDENTITY = Identity("gw-a", 7, 2.0, "10.0.0.1")


def settings(folder: Path, **tree: object) -> GatewaySettings:
    section = replace(TreeSection(folder / "key", tls="off"), **tree)  # type: ignore[arg-type]  # by name
    return GatewaySettings(GatewaySection("gw-a", folder), section)


@pytest.mark.parametrize(("mode", "floods"), [("flood", True), ("routed", False)])
def test_it_has_the_trees_name_times_and_mode(tmp_path: Path, mode: str, *, floods: bool) -> None:
    told = settings(tmp_path, mode=mode, name="barn", hello_s=1.5, repair_interval_s=7.0)
    made = node_settings(told, b"k" * 16, IDENTITY, None)
    assert made.floods_clients is floods
    own = made.credentials
    assert (own.gateway_id, own.tree, own.mode) == ("gw-a", "barn", mode)
    assert own.additions == Additions.CLOCKS
    assert (made.identity, made.seals) == (IDENTITY, None)
    assert made.parameters.hello_s == 1.5
    assert made.repair_interval_s == 7.0


@pytest.mark.parametrize(("durability", "syncs"), [("sync", True), ("write", False)])
def test_its_log_is_on_the_disk_before_an_answer_or_after_an_interval(
    tmp_path: Path, durability: str, *, syncs: bool
) -> None:
    told = settings(tmp_path)
    log = replace(told.log, durability=durability, sync_interval_ms=250)
    made = node_settings(replace(told, log=log), b"k" * 16, IDENTITY, None)
    assert (made.sync, made.sync_interval_s) == (syncs, 0.25)
