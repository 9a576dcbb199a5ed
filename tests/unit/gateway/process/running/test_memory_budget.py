"""The stores of a gateway fit into the memory that its process may have."""

from __future__ import annotations

import logging
import resource
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coap_engine import codes
from coap_engine.blocks import Block
from coap_engine.limits import DEFAULT_LIMITS
from coap_engine.message import CoapPeer, CoapResponse
from coap_engine.option_numbers import BLOCK1, URI_PATH
from coap_engine.request_bodies import RequestBodies, WholeBody
from coap_engine.response_bodies import ResponseBodies
from coap_engine.shares import Shares
from gateway.base import machine_memory
from gateway.base.machine_memory import MemoryBound, bound
from gateway.broker.limits import Limits
from gateway.coap.concurrent_requests import ANSWER_BYTES, ASKED_AT_ONCE
from gateway.coap.limits import CoapLimits, held_bytes_least
from gateway.process.configuration.config import (
    ConfigError,
    GatewaySection,
    GatewaySettings,
    MemorySection,
    TreeSection,
)
from gateway.process.running import store_limits
from gateway.process.running.memory_budget import BASE_BYTES, LEAST, StoreLimits, fitting
from resource_directory.registry import RegistryLimits

MIB = 1 << 20
CONFIGURED = StoreLimits(Limits(), RegistryLimits(), DEFAULT_LIMITS)


def file(root: Path, path: str, text: str) -> Path:
    made = root / path
    made.parent.mkdir(parents=True, exist_ok=True)
    made.write_text(text)
    return made


# -- what the machine says -------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def without_rlimits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_memory, "RLIMITS", {})


def test_without_other_bounds_the_machine_s_memory_counts(tmp_path: Path) -> None:
    assert bound(tmp_path) is None
    file(tmp_path, "proc/meminfo", "MemTotal:         432756 kB\nMemFree:  1 kB\n")
    assert bound(tmp_path) == MemoryBound(432_756 * 1024, "the machine")


@pytest.mark.parametrize("name", ["memory.max", "memory.high"])
@pytest.mark.parametrize("where", ["", "system.slice/", "system.slice/hedgerow.service/"])
def test_a_group_s_limit_counts_wherever_above_the_process_it_stands(
    tmp_path: Path, where: str, name: str
) -> None:
    file(tmp_path, "proc/meminfo", "MemTotal: 4000000 kB\n")
    file(tmp_path, "proc/self/cgroup", "0::/system.slice/hedgerow.service\n")
    top = "sys/fs/cgroup/"
    file(tmp_path, f"{top}system.slice/hedgerow.service/memory.max", "max\n")
    limit = file(tmp_path, f"{top}{where}{name}", "402653184\n")
    assert bound(tmp_path) == MemoryBound(402_653_184, str(limit))


def test_in_a_container_the_group_s_path_may_lead_nowhere(tmp_path: Path) -> None:
    file(tmp_path, "proc/self/cgroup", "0::/../../docker/abc\n")
    limit = file(tmp_path, "sys/fs/cgroup/memory.max", "402653184\n")
    assert bound(tmp_path) == MemoryBound(402_653_184, str(limit))


def test_groups_of_version_1_have_a_file_of_their_own(tmp_path: Path) -> None:
    file(tmp_path, "proc/meminfo", "MemTotal: 4000000 kB\n")
    file(tmp_path, "proc/self/cgroup", "9:cpu,memory:/docker/abc\n1:name=systemd:/docker/abc\n")
    file(tmp_path, "sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "9223372036854771712")
    assert bound(tmp_path) == MemoryBound(4_000_000 * 1024, "the machine")
    limit = file(tmp_path, "sys/fs/cgroup/memory/docker/memory.limit_in_bytes", "402653184")
    assert bound(tmp_path) == MemoryBound(402_653_184, str(limit))


@pytest.mark.parametrize("text", ["", "\0\0", "max", "-1", "0::", "memory", "MemTotal: x kB"])
def test_files_that_say_nothing_bound_nothing(tmp_path: Path, text: str) -> None:
    for path in ("proc/meminfo", "proc/self/cgroup", "sys/fs/cgroup/memory.max"):
        file(tmp_path, path, text)
    assert bound(tmp_path) is None


def test_limits_of_the_process_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file(tmp_path, "proc/meminfo", "MemTotal: 4000000 kB\n")
    kind = resource.RLIMIT_FSIZE  # one that does no harm to this process
    monkeypatch.setattr(machine_memory, "RLIMITS", {"RLIMIT_DATA": kind})
    assert bound(tmp_path) == MemoryBound(4_000_000 * 1024, "the machine")
    before, most = resource.getrlimit(kind)
    resource.setrlimit(kind, (3_000 * MIB, most))
    try:
        assert bound(tmp_path) == MemoryBound(3_000 * MIB, "RLIMIT_DATA")
    finally:
        resource.setrlimit(kind, (before, most))


# -- what is left of it ----------------------------------------------------------------------------


def group(root: Path, folder: str, **said: str) -> None:
    for name, text in said.items():
        file(root, f"sys/fs/cgroup/{folder}memory.{name}", text)


def test_as_much_is_left_as_the_machine_has_without_other_bounds(tmp_path: Path) -> None:
    assert machine_memory.left(tmp_path) is None
    for wrong in ("MemTotal: 512 kB\n", "MemAvailable: much\n", "MemAvailable:\n"):
        file(tmp_path, "proc/meminfo", wrong)
        assert machine_memory.left(tmp_path) is None
    file(tmp_path, "proc/meminfo", "MemTotal: 512 kB\nMemAvailable:   256 kB\n")
    assert machine_memory.left(tmp_path) == 256 << 10


def test_a_group_leaves_its_limit_without_what_its_processes_have(tmp_path: Path) -> None:
    file(tmp_path, "proc/meminfo", "MemAvailable: 4000000 kB\n")
    file(tmp_path, "proc/self/cgroup", "0::/user.slice/session.scope\n")
    group(tmp_path, "user.slice/session.scope/", max="max\n", current=f"{90 * MIB}\n")
    assert machine_memory.left(tmp_path) == 4_000_000 << 10
    said = {"current": f"{400 * MIB}\n", "stat": f"anon 1\ninactive_file {100 * MIB}\n"}
    group(tmp_path, "user.slice/", max=f"{500 * MIB}\n", **said)
    assert machine_memory.left(tmp_path) == 200 * MIB
    group(tmp_path, "user.slice/", high=f"{450 * MIB}\n")
    assert machine_memory.left(tmp_path) == 150 * MIB
    group(tmp_path, "user.slice/", high=f"{250 * MIB}\n")
    assert machine_memory.left(tmp_path) == 0


def test_a_group_of_version_1_leaves_so_much_too(tmp_path: Path) -> None:
    file(tmp_path, "proc/meminfo", "MemAvailable: 4000000 kB\n")
    file(tmp_path, "proc/self/cgroup", "9:memory:/docker/abc\n")
    said = {"usage_in_bytes": f"{90 * MIB}\n", "stat": f"total_inactive_file {30 * MIB}\n"}
    group(tmp_path, "memory/docker/abc/", limit_in_bytes=f"{100 * MIB}\n", **said)
    assert machine_memory.left(tmp_path) == 40 * MIB


@given(st.binary(max_size=40), st.binary(max_size=40), st.binary(max_size=60))
def test_whatever_a_group_says_what_is_left_is_a_number(
    limit: bytes, used: bytes, stat: bytes
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        file(root, "proc/meminfo", "MemAvailable: 4000000 kB\n")
        file(root, "proc/self/cgroup", "0::/a\n")
        for name, said in (("max", limit), ("current", used), ("stat", stat)):
            file(root, f"sys/fs/cgroup/a/memory.{name}", "").write_bytes(said)
        assert 0 <= (machine_memory.left(root) or 0) <= 4_000_000 << 10


# -- what is made of it ----------------------------------------------------------------------------


@given(st.integers(0, 1 << 34))
def test_stores_have_five_eighths_of_the_memory_without_the_gateway_s_own(
    memory_bytes: int,
) -> None:
    fitted, part = fitting(CONFIGURED, memory_bytes)
    room = memory_bytes * 5 // 8 - BASE_BYTES
    assert LEAST <= part <= 1
    assert fitted.size_bytes <= CONFIGURED.size_bytes
    if part > LEAST:
        assert fitted.size_bytes <= max(room, 0) + DEFAULT_LIMITS.bodies.body_bytes
    if part == 1:
        assert fitted == CONFIGURED


@given(st.integers(128 * MIB, 2048 * MIB))
def test_each_store_and_each_user_have_their_part_of_less(memory_bytes: int) -> None:
    fitted, part = fitting(CONFIGURED, memory_bytes)
    before, after = CONFIGURED.directory, fitted.directory
    for name in ("size", "size_per_owner", "size_per_registration"):
        assert getattr(after, name) == int(getattr(before, name) * part), name
    for name in (
        *("retained_bytes", "retained_bytes_per_user", "all_queues_bytes"),
        *("subscriptions_bytes", "subscriptions_bytes_per_user", "all_buffers_bytes"),
        *("all_wills_bytes", "retained_tombstones", "retained_tombstones_per_gateway"),
        *("retained_bytes_per_gateway", "sessions", "sessions_per_user"),
    ):
        assert getattr(fitted.broker, name) == int(getattr(CONFIGURED.broker, name) * part), name
    assert fitted.broker.packet_bytes == CONFIGURED.broker.packet_bytes
    least = held_bytes_least(DEFAULT_LIMITS.bodies.body_bytes)
    held = fitted.coap.shares.held_bytes
    assert least <= held.host <= held.strangers <= held.everybody
    assert held.host == max(least, int(CONFIGURED.coap.shares.held_bytes.host * part))


@pytest.mark.parametrize("body_bytes", [1_024, 1 << 20, 4 << 20])
@pytest.mark.parametrize("memory_bytes", [0, 2048 * MIB])
def test_one_peer_has_its_longest_body_and_all_that_a_command_asks_at_once(
    memory_bytes: int, body_bytes: int
) -> None:
    coap = CoapLimits(body_bytes=body_bytes).engine
    fitted, _ = fitting(replace(CONFIGURED, coap=coap), memory_bytes)
    shares = Shares(fitted.coap.shares)
    peer = CoapPeer("here", "127.0.0.1", is_address_proven=True)
    uploads = RequestBodies(shares, fitted.coap.bodies)
    blocks = body_bytes // 1_024
    for number in range(blocks):
        more = number < blocks - 1
        options = ((BLOCK1, Block(number, more, 6).encode()),)
        taken = uploads.take(peer, codes.PUT, options, bytes(1_024), 0.0)
        assert isinstance(taken, WholeBody if number == blocks - 1 else CoapResponse)
        assert isinstance(taken, WholeBody) or taken.code == codes.CONTINUE
    answers = ResponseBodies(shares, fitted.coap.bodies)
    size_bytes = min(ANSWER_BYTES, body_bytes)
    for number in range(ASKED_AT_ONCE):
        path = ((URI_PATH, b"q/%d/status" % number),)
        answers.cut(peer, codes.GET, path, b"", CoapResponse(0x45, (), bytes(size_bytes)), 0.0)
    assert answers.kept == (ASKED_AT_ONCE if size_bytes > 1_024 else 0)


@pytest.mark.parametrize("name", ["queue_bytes", "retained_bytes_per_user"])
@given(memory_bytes=st.integers(128 * MIB, 2048 * MIB), configured=st.integers(0, 16 * MIB))
def test_the_longest_message_that_one_may_keep_it_may_keep_with_less_memory(
    name: str, memory_bytes: int, configured: int
) -> None:
    limits = replace(Limits(), **{name: configured})
    fitted, part = fitting(replace(CONFIGURED, broker=limits), memory_bytes)
    least = min(configured, limits.packet_bytes)
    assert getattr(fitted.broker, name) == max(least, int(configured * part))


def test_who_configures_a_store_larger_gives_it_a_larger_share() -> None:
    larger = replace(CONFIGURED, broker=replace(Limits(), retained_bytes=400 * MIB))
    plain, more = (fitting(one, 512 * MIB)[0].broker.retained_bytes for one in (CONFIGURED, larger))
    assert more > 4 * plain


def settings(folder: Path, limit_bytes: int) -> GatewaySettings:
    return GatewaySettings(
        GatewaySection("gw", folder, address="127.0.0.1"),
        TreeSection(folder / "key", tls="off", discovery=False),
        memory=MemorySection(limit_bytes),
    )


def test_the_configuration_s_word_counts_before_the_machine_s(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    fitted = store_limits.of(settings(tmp_path, 384 * MIB))
    assert fitted == fitting(CONFIGURED, 384 * MIB)[0]
    assert "memory: 384 MiB (memory.limit_bytes); limits that count bytes are at" in caplog.text
    caplog.clear()
    assert store_limits.of(settings(tmp_path, 64 << 30)) == CONFIGURED
    assert not caplog.records


def test_too_little_memory_is_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store_limits.of(settings(tmp_path, 64 * MIB))
    assert [one.levelname for one in caplog.records] == ["WARNING"]


def test_a_limit_that_no_gateway_lives_in_is_named() -> None:
    for limit_bytes in (1, 64 * MIB - 1):
        with pytest.raises(ConfigError, match="limit_bytes"):
            MemorySection(limit_bytes)
