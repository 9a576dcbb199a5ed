"""The end of a certificate is told in time: in the status, the metrics and the log."""

from __future__ import annotations

import asyncio
import datetime
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from authority import Authority
from fleet_gateway import FleetGateway
from loop_clock import Clock
from prometheus_client.parser import text_string_to_metric_families

from alerts.thresholds import ENDING_DAYS
from gateway.process.status.text import as_text
from gateway.trust.certificates.expiry import DAY_S, CertificateExpiry, ExpiryWatch
from gateway.trust.certificates.validity import read
from gateway.trust.credentials.tls_file_faults import TlsFileError
from gateway.trust.tls.context import ClientCertificate, TlsFiles


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    said = [
        one.getMessage()
        for one in caplog.records
        if one.name == "gateway.trust.certificates.expiry"
    ]
    caplog.clear()
    return said


def test_every_certificate_and_list_of_the_files_is_read(tmp_path: Path) -> None:
    one, other = Authority(tmp_path, "one"), Authority(tmp_path, "other")
    own = one.issue("gw-a", is_gateway=True)
    (tmp_path / "ca.pem").write_bytes(one.file.read_bytes() + other.file.read_bytes())
    (tmp_path / "crl.pem").write_bytes(one.revoke() + other.revoke())
    found = read(
        TlsFiles(
            own.certificate,
            own.key,
            ClientCertificate.REQUIRED,
            tmp_path / "ca.pem",
            tmp_path / "crl.pem",
        )
    )
    assert [(each.field, each.number, each.name) for each in found] == [
        ("certificate_file", 1, "gw-a"),
        ("client_ca_file", 1, "one"),
        ("client_ca_file", 2, "other"),
        ("client_crl_file", 1, "one"),
        ("client_crl_file", 2, "other"),
    ]
    assert found[0].ends_s == own.x509.not_valid_after_utc.timestamp()


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    own = Authority(tmp_path).issue("gw-a", is_gateway=True)
    with pytest.raises(TlsFileError, match=r"none\.pem: No such file"):
        read(TlsFiles(tmp_path / "none.pem", own.key))


def test_a_month_before_its_end_a_certificate_is_warned_of_each_day_until_it_is_renewed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = Clock()
    watch = ExpiryWatch(clock, clock.time)
    soon = CertificateExpiry("certificate_file", 1, "gw-a", (ENDING_DAYS + 1.5) * DAY_S)
    far = CertificateExpiry("client_ca_file", 1, "fleet", 1_000 * DAY_S)
    watch.follow([far, soon])
    clock.pass_s(DAY_S)
    assert warnings(caplog) == []
    clock.pass_s(DAY_S)
    assert warnings(caplog) == ["mqtt.certificate_file: that of 'gw-a' expires in 29 days"]
    clock.pass_s(DAY_S)
    assert warnings(caplog) == ["mqtt.certificate_file: that of 'gw-a' expires in 28 days"]
    for _ in range(29):
        clock.pass_s(DAY_S)
    told = warnings(caplog)[-1]
    assert told.startswith("mqtt.certificate_file: that of 'gw-a' ended at 1970-02-01 12:00 UTC, ")
    assert "this machine's clock says 1970-02-02 00:00 UTC: " in told
    watch.follow([far])
    clock.pass_s(DAY_S)
    assert warnings(caplog) == []
    watch.follow([far, soon])  # read again: said at once
    assert len(warnings(caplog)) == 1
    watch.close()
    clock.pass_s(DAY_S)
    assert warnings(caplog) == []


def test_a_status_has_what_ends_first_at_its_head() -> None:
    watch = ExpiryWatch(Clock(), lambda: 0.0)
    late = CertificateExpiry("certificate_file", 1, "gw-a", 90 * DAY_S)
    watch.follow([late, CertificateExpiry("client_crl_file", 2, "fleet", 3.5 * DAY_S)])
    assert [(one["field"], one["days_left"]) for one in watch.as_json()] == [
        ("client_crl_file", 3),
        ("certificate_file", 90),
    ]


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[FleetGateway]:
    authority = Authority(tmp_path)
    issued = authority.issue("gw-a", is_gateway=True)
    made = FleetGateway(tmp_path, "gw-a", issued, authority.file)
    made.mqtt = '[[sensors]]\ntype = "switch"\nname = "lamp"'
    await made.start()
    yield made
    await made.stop()


async def test_a_running_gateway_tells_version_build_sensors_peers_and_certificates(
    gateway: FleetGateway,
) -> None:
    told = gateway.process.status()
    assert {one["field"] for one in told["certificates"]} == {"certificate_file", "client_ca_file"}
    assert told["sensors"] == {"count": 1, "failed": 0, "skipped": 0}
    peers = {"asking": 0, "open_requests": 0, "dtls_sessions": 0, "registered": 1}
    assert told["coap"] == peers | {"refused": 0}
    text = as_text(told)
    assert f"hedgerow {told['version']}" in text
    assert "sensors: 1, 0 readings failed, 0 skipped" in text
    assert "CoAP: 0 peers with 0 open requests, 0 DTLS sessions, 1 registered" in text
    day = datetime.datetime.fromtimestamp(told["certificates"][0]["ends_s"], datetime.UTC)
    assert f"certificate_file: 'gw-a' expires {day:%Y-%m-%d}, in 0 days" in text


async def test_the_metrics_tell_the_same(gateway: FleetGateway) -> None:
    told = gateway.process.status()
    found = {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(await metrics(gateway))
        for sample in family.samples
    }
    for one in told["certificates"]:
        name = "hedgerow_certificate_expiry_timestamp_seconds"
        assert found[name, str(one["number"]), one["field"]] == one["ends_s"]
    assert found["hedgerow_sensors",] == 1
    assert found["hedgerow_sensor_failed_readings_total",] == 0
    assert found["hedgerow_coap_peers", "registered"] == 1


async def test_what_ends_soon_is_warned_of_at_start_and_when_it_is_read_again(
    gateway: FleetGateway, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.clear()
    await gateway.process.reload()
    assert sorted(warnings(caplog)) == [
        "mqtt.certificate_file: that of 'gw-a' expires in 0 days",
        "mqtt.client_ca_file: that of 'authority' expires in 0 days",
    ]


async def metrics(gateway: FleetGateway) -> str:
    where = json.loads((gateway.folder / "state" / "listeners.json").read_text())["console"]
    host, _, port = where.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    async with asyncio.timeout(60):
        answer = await reader.read()
    writer.close()
    return answer.partition(b"\r\n\r\n")[2].decode()


def test_what_coap_shows_and_takes_is_named_with_its_section(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    authority = Authority(tmp_path)
    own = authority.issue("gw-a", is_server=True)
    files = TlsFiles(own.certificate, own.key, ClientCertificate.REQUIRED, authority.file)
    watch = ExpiryWatch(Clock(), lambda: own.x509.not_valid_after_utc.timestamp() - 1.5 * DAY_S)
    watch.follow(read(files, "coap."))
    assert warnings(caplog) == [
        "coap.certificate_file: that of 'gw-a' expires in 1 days",
        "coap.client_ca_file: that of 'authority' expires in 1 days",
    ]
    assert {one["field"] for one in watch.as_json()} == {
        "coap.certificate_file",
        "coap.client_ca_file",
    }
