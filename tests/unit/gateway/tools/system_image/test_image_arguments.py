"""Goal: what `deploy/image/build` is told comes into the order of the image, and nothing else."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from gateway.tools.system_image import __main__ as command
from gateway.tools.system_image import building
from gateway.tools.system_image.building import BuiltImage
from gateway.tools.system_image.order import ImageOrder
from gateway.tools.system_image.root_file_system import RootFileSystem


class Builder:
    """Takes an order, and builds nothing."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.orders: list[ImageOrder] = []
        monkeypatch.setattr(building, "build", self._build)

    def _build(self, order: ImageOrder, _: object) -> BuiltImage:
        self.orders.append(order)
        return BuiltImage(order.output, "0.1.0-1", "ab" * 32, 0)


@pytest.fixture
def builder(monkeypatch: pytest.MonkeyPatch) -> Builder:
    return Builder(monkeypatch)


def ordered(builder: Builder, folder: Path, *arguments: str) -> ImageOrder:
    places = ["--project", str(folder), "--output", str(folder / "a.img")]
    assert command.main([*places, *arguments]) == 0
    return builder.orders[-1]


def test_an_image_is_dated_as_it_is_told(
    builder: Builder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1790000000")
    assert ordered(builder, tmp_path).epoch_s == 1_790_000_000


@pytest.mark.parametrize("told", ["", "yesterday", "-1", "1.5", "\u00b2"])
def test_what_is_no_time_is_refused_before_anything_is_built(
    told: str,
    builder: Builder,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", told)
    places = ["--project", str(tmp_path), "--output", str(tmp_path / "a.img")]
    assert command.main(places) == 1
    assert f"SOURCE_DATE_EPOCH: {told!r}" in capsys.readouterr().err
    assert builder.orders == []


def test_without_being_told_an_image_is_as_old_as_its_commit(
    builder: Builder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    author = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    dated = {"GIT_COMMITTER_DATE": "1780000000 +0000", "PATH": "/usr/bin:/bin"}
    commit = ["git", "-C", str(tmp_path), *author, "commit", "-q", "--allow-empty", "-m", "a"]
    subprocess.run(commit, check=True, env=dated)
    assert ordered(builder, tmp_path).epoch_s == 1_780_000_000


def test_switches_and_lists_come_into_the_order(
    builder: Builder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1")
    usual = ordered(builder, tmp_path)
    assert (usual.has_kernel, usual.has_gateway, usual.is_compiled) == (True, True, False)
    assert usual.roles == ("sd_card", "watchdog")
    switches = ("--no-kernel", "--no-gateway", "--compiled", "--roles", "time, firewall")
    sizes = ("--boot-mib", "111", "--root-mib", "2222", "--data-mib", "333")
    packages = ("--packages", "a,b", "--more-packages", "c")
    order = ordered(builder, tmp_path, *switches, *sizes, *packages)
    assert (order.has_kernel, order.has_gateway, order.is_compiled) == (False, False, True)
    assert order.roles == ("time", "firewall")
    assert order.packages == ("a", "b", "c")
    assert (order.sizes.boot, order.sizes.root, order.sizes.data) == (111, 2222, 333)


@pytest.mark.parametrize("has_kernel", [True, False])
def test_a_root_is_made_of_the_packages_and_of_the_kernels_unless_it_is_left_out(
    has_kernel: bool, builder: Builder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1")
    arguments = () if has_kernel else ("--no-kernel",)
    order = ordered(builder, tmp_path, "--packages", "chrony,nftables", *arguments)
    made_by = tmp_path / "mmdebstrap"
    made_by.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >{tmp_path}/arguments\n')
    made_by.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    RootFileSystem(order, tmp_path).bootstrap()
    [include] = [
        line for line in (tmp_path / "arguments").read_text().split("\n") if "--include=" in line
    ]
    installed = set(include.removeprefix("--include=").split(","))
    kernel = set(order.base.kernel)
    assert {"chrony", "nftables"} <= installed
    assert installed & kernel == (kernel if has_kernel else set())
    assert kernel
