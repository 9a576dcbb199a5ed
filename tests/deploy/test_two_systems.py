"""A system image is built, booted and upgraded; what does not come up gives way to what was."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import bed
import pytest
import two_systems
from commands import run
from missing_peer import skip_or_fail_in_ci
from spdx_tools.spdx.parser.parse_anything import parse_file
from spdx_tools.spdx.validation.document_validator import validate_full_spdx_document
from two_systems import PiWithTwoSystems

from gateway.tools import cli
from gateway.tools.system_image import __main__ as command
from gateway.tools.system_image.layout import ImageLayout, ImageSizes
from gateway.tools.system_image.root_file_system import SERVICE_ID
from gateway.tools.system_slots.installing import ABOUT
from gateway.tools.system_slots.slots import Slot

pytestmark = [pytest.mark.deploy, pytest.mark.timeout(3600)]
PROJECT = Path(__file__).resolve().parents[2]
SIZES = ImageSizes(boot=36, root=640, data=64)
LAYOUT = ImageLayout(SIZES)
PACKAGES = "python3 python3-venv systemd systemd-sysv dbus mtools gpgv fdisk e2fsprogs mount"
KEY = "builder@example.org"
EPOCH = "1790000000"
NEVER_RUNS = 'raise SystemExit("this release never runs")\n'


@dataclass(frozen=True)
class Builder:
    """A machine that builds and signs images.

    Attributes:
        folder: with the images.
        image: the first one.

    """

    folder: Path
    image: Path

    def changed(self, version: str, commands: str = "", **files: str) -> Path:
        """Another version, signed: 0.2, or what is broken in it."""
        image = self.folder / f"{version}.img"
        subprocess.run(["cp", "--sparse=always", self.image, image], check=True)
        told = {"version": version, "suite": "trixie", "architecture": "amd64"}
        texts = {ABOUT: json.dumps(told), **files}
        two_systems.changed_image(image, LAYOUT, commands, texts)
        run("gpg", "--batch", "--yes", "--detach-sign", "--output", f"{image}.sig", image)
        return image


def build(output: Path, *arguments: str) -> None:
    sizes = [f"--boot-mib={SIZES.boot}", f"--root-mib={SIZES.root}", f"--data-mib={SIZES.data}"]
    own = ["--project", str(PROJECT), "--arch", "amd64", "--no-kernel", *sizes]
    assert command.main([*own, *arguments, "--output", str(output)]) == 0


@pytest.fixture(scope="module")
def builder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Builder]:
    if (why := bed.why_not()) is not None:
        skip_or_fail_in_ci(why)
    folder = tmp_path_factory.mktemp("images")
    home = folder / "gpg"
    home.mkdir(mode=0o700)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("GNUPGHOME", str(home))
        patched.setenv("SOURCE_DATE_EPOCH", EPOCH)
        run("gpg", "--batch", "--passphrase", "", "--quick-generate-key", KEY, "ed25519")
        build(folder / "first.img", "--packages", PACKAGES, "--sign", KEY)
        yield Builder(folder, folder / "first.img")


@pytest.fixture
def pi(builder: Builder, tmp_path: Path) -> Iterator[PiWithTwoSystems]:
    """A card of the first image, with a gateway's configuration on it."""
    card = tmp_path / "card.img"
    subprocess.run(["cp", "--sparse=always", builder.image, card], check=True)
    fleet = tmp_path / "fleet"
    assert cli.main(["init", str(fleet), "--fleet", "gw-root=127.0.0.1"]) == 0
    with PiWithTwoSystems(tmp_path, card, LAYOUT, builder.folder) as made:
        config = tmp_path / "data/etc/hedgerow"
        shutil.copytree(fleet / "gw-root", config, dirs_exist_ok=True)
        text = (config / "hedgerow.toml").read_text()
        (config / "hedgerow.toml").write_text(text.replace('"state"', '"/var/lib/hedgerow"'))
        run("chown", "--recursive", f"{SERVICE_ID}:{SERVICE_ID}", config)
        yield made


def life(pi: PiWithTwoSystems) -> int:
    """The number of the gateway's life, which its state keeps; 0 while it does not answer."""
    told = pi.hedgerow(
        *("status", "--json", "--timeout", "2", "--config", "/etc/hedgerow/hedgerow.toml"),
        *("--psk-file", "/etc/hedgerow/psk"),
    )
    return int(json.loads(told)["boot_epoch"]) if told.startswith("{") else 0


def upgrade(pi: PiWithTwoSystems, image: Path, *arguments: str) -> int:
    """Install an image and let the Pi live until no trial is open; the life before."""
    lives: list[int] = []

    def during(up: PiWithTwoSystems) -> bool:
        if not lives:
            up.until("the gateway answers", lambda: life(up))
            lives.append(life(up))
            told = up.hedgerow("system", "install", f"/run/images/{image.name}", *arguments)
            assert "is started now, on trial" in told, told
            up.until("it restarts", lambda: False)
            return False
        up.until("the trial is over", lambda: _trial(up) is None)
        return up.is_on

    pi.live(during)
    return lives[0]


def _trial(pi: PiWithTwoSystems) -> object:
    told = pi.hedgerow("system", "status", "--json")
    return json.loads(told)["trial"] if told.startswith("{") else told


def last(pi: PiWithTwoSystems) -> dict[str, str]:
    told: dict[str, str] = json.loads((pi.folder / "data/system/last-trial.json").read_text())
    return told


def test_two_builds_give_the_same_bytes_and_each_a_valid_bill(
    builder: Builder, tmp_path: Path
) -> None:
    again = tmp_path / "first.img"
    build(again, "--packages", PACKAGES, "--sign", KEY)
    for name in ("first.img.sha256", "first.img.spdx.json"):
        assert (tmp_path / name).read_text() == (builder.folder / name).read_text()
    bill = parse_file(str(tmp_path / "first.img.spdx.json"))
    assert validate_full_spdx_document(bill) == []
    names = {one.name for one in bill.packages}
    assert {"libc6", "systemd", "hedgerow", "amqtt"} <= names


def test_a_healthy_system_is_confirmed_and_the_gateways_state_is_kept(
    builder: Builder, pi: PiWithTwoSystems
) -> None:
    before = upgrade(pi, builder.changed("2"))
    assert pi.starts == [Slot.A, Slot.B]
    assert last(pi) == {"slot": "B", "version": "2", "why": "", "outcome": "confirmed"}
    lives: list[int] = []

    def during(up: PiWithTwoSystems) -> bool:
        up.until("the gateway answers", lambda: life(up))
        lives.append(life(up))
        return True

    pi.live(during)
    assert pi.starts[-1] is Slot.B
    assert lives[0] >= before + 2


def test_a_system_whose_gateway_never_runs_returns_to_the_one_before(
    builder: Builder, pi: PiWithTwoSystems
) -> None:
    with pi.mounted(Slot.A) as root:
        packages = "opt/hedgerow/releases/*/lib/python3*/site-packages"
        serves = next(root.glob(f"{packages}/gateway/process/running/service.py"))
        name = serves.relative_to(root)
    cache = f"rm {name.parent}/__pycache__/service.cpython-313.pyc"
    broken = builder.changed("3", cache, **{str(name): NEVER_RUNS})
    upgrade(pi, broken, "--within", "20", "--attempts", "1")
    assert pi.starts == [Slot.A, Slot.B, Slot.A]
    assert last(pi)["outcome"] == "returned"
    assert "it does not answer" in last(pi)["why"]


def test_a_system_in_which_nothing_of_ours_runs_returns_by_its_deadline(
    builder: Builder, pi: PiWithTwoSystems
) -> None:
    upgrade(pi, builder.changed("4", "rm opt/hedgerow/venv"), "--attempts", "1")
    assert pi.starts == [Slot.A, Slot.B, Slot.A]
    assert "did not come up" in last(pi)["why"]


def test_a_system_that_does_not_even_start_is_tried_as_often_as_it_may_be(
    builder: Builder, pi: PiWithTwoSystems
) -> None:
    upgrade(pi, builder.changed("5", "rm usr/sbin/init\nrm usr/lib/systemd/systemd"))
    assert pi.starts == [Slot.A, Slot.B, Slot.A, Slot.B, Slot.A]
    assert "did not come up" in last(pi)["why"]
