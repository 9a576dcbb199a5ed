"""Goal: the benchmark of handshakes tells what it measured, and no figure comes of others."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from benchmarks.coap_figures import rate_result
from benchmarks.coap_load import Run
from benchmarks.dtls_certificates import DtlsCertificates
from benchmarks.dtls_load import parse
from benchmarks.load_generator import GeneratorError

SAID = (
    '{"measured": %d, "measured_s": 0.5, "resumed": %d, "failed": 1, '
    '"generator_cpu_s": 0.1, "p50_us": 40, "p99_us": 90}'
)


def test_what_the_program_says_becomes_a_rate() -> None:
    expected = Run(40.0, 40.0, 90.0, 0.2, 1, "", answered=20)
    assert parse(SAID % (20, 0), resumed=False) == expected


def test_a_session_that_was_not_resumed_leaves_the_server_without_a_figure() -> None:
    run = parse(SAID % (20, 18), resumed=True)
    assert run.fault == "2 of 20 were not resumed"
    assert rate_result("case", "handshakes/s", {"peer": [run]}).figures == {}
    assert parse(SAID % (0, 0), resumed=False).fault == "no handshake"


def test_what_is_no_json_of_the_program_is_an_error() -> None:
    with pytest.raises(GeneratorError, match="wrote"):
        parse("{}", resumed=False)


def test_targets_stand_beside_libcoap() -> None:
    runs = {"hedgerow": [Run(10.0)], "libcoap coap-server": [Run(6.0)]}
    for case, verdict in (
        ("handshakes with a key", "target 0.5 x: met"),
        ("handshakes with certificates", "target 2 x: MISSED"),
        ("handshakes resumed, of a key", "target 0.5 x: met"),
    ):
        assert verdict in list(rate_result(case, "handshakes/s", runs).lines())[2]


def test_its_certificates_are_of_its_authority(tmp_path: Path) -> None:
    made = DtlsCertificates(tmp_path)
    for certificate, key in (made.server, made.client):
        checked = subprocess.run(
            ["openssl", "verify", "-CAfile", made.authority, certificate],
            capture_output=True,
            check=False,
        )
        assert checked.returncode == 0, checked.stderr
        assert key.stat().st_mode & 0o077 == 0
