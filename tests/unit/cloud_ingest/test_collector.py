"""The collector has links in TLS alone, and all that it was sent is on its disk at once."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from fleet_collector import linked, running, settings
from fleet_gateway import Fleet, until

from cloud_ingest.collector import command as collecting
from cloud_ingest.collector import status_file
from cloud_ingest.collector.command import Collector
from cloud_ingest.collector.shared_spool import TOPIC
from cloud_ingest.collector.spooled import SpoolStatement, signed
from cloud_ingest.spool.segments import read_mark, segments
from gateway.node.links.settings import NodeSettings
from gateway.process.configuration.config import ConfigError
from tree_handler import batch
from tree_handler.intervals import Intervals


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[Fleet]:
    made = Fleet(tmp_path)
    yield made
    await made.stop()


async def test_it_does_not_start_without_a_certificate(fleet: Fleet) -> None:
    with pytest.raises(ConfigError, match=r"collector\.certificate_file.*tree\.tls"):
        Collector(settings(fleet, 1, tls=False))


async def test_it_does_not_start_where_it_would_not_sync(fleet: Fleet) -> None:
    with pytest.raises(ConfigError, match=r"log\.durability"):
        Collector(settings(fleet, 1, durability="write"))


async def test_it_links_to_a_gateway_that_takes_links_in_tls_alone(fleet: Fleet) -> None:
    gateway = fleet.gateway("gw-a")
    await gateway.start()
    collector = Collector(settings(fleet, gateway.port))
    async with running(collector):
        await until(lambda: linked(collector) == {"gw-a"})
        assert gateway.refusals("connection refused (not_authorized)") == 0


async def test_it_goes_by_a_revocation_that_a_gateway_hands_over(fleet: Fleet) -> None:
    a, b = fleet.gateway("gw-a"), fleet.gateway("gw-b")
    crl = fleet.folder / "crl.pem"
    crl.write_bytes(fleet.authority.revoke(number=1))
    a.mqtt = f'client_crl_file = "{crl}"'
    await a.start()
    await b.start()
    collector = Collector(settings(fleet, a.port, b.port))
    async with running(collector):
        await until(lambda: linked(collector) == {"gw-a", "gw-b"})
        assert b.issued is not None
        crl.write_bytes(fleet.authority.revoke(b.issued, number=2))
        await a.process.reload()
        await until(lambda: linked(collector) == {"gw-a"})


async def test_what_it_was_sent_is_safe_and_marked_at_once_and_not_at_the_next_interval(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    rarely = partial(NodeSettings, sync_interval_s=3600.0)
    monkeypatch.setattr(collecting, "NodeSettings", rarely)
    gateway = fleet.gateway("gw-a")
    await gateway.start()
    collector = Collector(settings(fleet, gateway.port))
    spool = fleet.folder / "spool"
    async with running(collector):
        await until(lambda: collector.node.status()["have"])
        await until(lambda: segments(spool, read_mark(spool)))
        (segment,) = segments(spool, read_mark(spool))
        assert list(batch.frames(segment.path.read_bytes()[: segment.length]))


async def test_what_another_collector_has_is_believed_if_that_collector_signed_it(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(status_file, "INTERVAL_S", 0.02)
    gateway = fleet.gateway("gw-a")
    await gateway.start()
    names = ["collector-1", "collector-2"]
    more = f'share = "origins"\ngroup = {names}'
    first, second = (
        Collector(settings(fleet, gateway.port, name=name, more=more)) for name in names
    )

    def file(name: str) -> Path:
        return fleet.folder / f"spool{name.removeprefix('collector')}" / status_file.NAME

    def sharing(name: str) -> Any:
        return json.loads(file(name).read_text())["sharing"] if file(name).exists() else {}

    async with running(first):
        async with running(second):
            await until(lambda: all(sharing(name).get("live") == names for name in names))
        stream = ("gw-b", 1)
        told = SpoolStatement(
            sender="collector-2",
            life=2**32 - 1,
            receiver="collector-1",
            number=2**32,
            acknowledges=(0, 0),
            since=0,
            upto=1,
            completes=True,
            rows={stream: Intervals([(1, 9)])},
        ).encode()
        node = gateway.process.parts.node
        for _ in range(2):  # the first may have been on its way
            file("collector-1").unlink(missing_ok=True)
            await until(file("collector-1").exists)
        refused = sharing("collector-1")["refused"]  # before it had the other's certificate
        for word in (signed(told, b""), signed(told, b"no signature"), b"no word"):
            node.direct.send("collector-1", TOPIC, word)
        await until(lambda: sharing("collector-1")["refused"] == refused + 3)
        assert stream not in first.node.replication.have


async def test_whatever_a_power_cut_has_left_of_its_files_it_starts_and_tells(
    fleet: Fleet, caplog: pytest.LogCaptureFixture
) -> None:
    gateway = fleet.gateway("gw-a")
    await gateway.start()
    made = partial(
        settings, fleet, gateway.port, more='share = "origins"\ngroup = ["collector", "other"]'
    )
    async with running(collector := Collector(made())):
        await until(lambda: linked(collector) == {"gw-a"})
    spool = fleet.folder / "spool"
    of_segments = {".log", ".times", ".index"}
    files = [path for path in spool.iterdir() if path.is_file() and path.suffix not in of_segments]
    for path in files:
        path.write_bytes(b"")
    async with running(collector := Collector(made())):
        await until(lambda: linked(collector) == {"gw-a"})
    # Those for readers, the spool's name, and the log's own notes: they are made anew.
    others = {"status.json", "identity", "synced", "inner"}
    kept = {path.name for path in files} - others
    assert {"boot_epoch", "certificates", "own_keys", "shared"} <= kept
    assert {path.name for path in spool.glob("*.damaged-1")} == {f"{one}.damaged-1" for one in kept}
    said = "\n".join(one.getMessage() for one in caplog.records if one.levelname == "ERROR")
    assert all(f"{spool / name}: empty; set aside" in said for name in kept)
    assert f"{spool / 'inner'}: not usable (empty)" in said


async def test_with_a_certificate_that_has_ended_it_starts_and_tells(
    fleet: Fleet, caplog: pytest.LogCaptureFixture
) -> None:
    made = settings(fleet, 1)
    old = fleet.authority.issue("collector", is_gateway=True, expired=True)
    certificate, key = made.collector.certificate_file, made.collector.key_file
    assert certificate is not None and key is not None
    certificate.write_bytes(old.certificate.read_bytes())
    key.write_bytes(old.key.read_bytes())
    async with running(Collector(made)):
        (said,) = [one.getMessage() for one in caplog.records if one.levelname == "ERROR"]
        assert said.startswith(f"{certificate}: expired at ")
