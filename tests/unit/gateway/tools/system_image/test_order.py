"""Goal: an order that can't be built is refused by the argument that is wrong."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gateway.tools.system_image.errors import ImageBuildError
from gateway.tools.system_image.layout import ImageSizes
from gateway.tools.system_image.order import BASES, ImageOrder

ORDER = ImageOrder(
    project=Path("/project"),
    base=BASES["debian"],
    suite="trixie",
    architecture="arm64",
    mirrors=(),
    keyring=None,
    packages=("python3", "libstdc++6", "g++-14", "python3.13"),
    has_kernel=True,
    has_gateway=True,
    is_compiled=False,
    roles=(),
    variables=None,
    sizes=ImageSizes(),
    epoch_s=1,
    output=Path("/a.img"),
    sign="",
)


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"suite": "Trixie"}, "--suite: 'Trixie' is no name of a suite"),
        ({"suite": "-trixie"}, "--suite: '-trixie' is no name of a suite"),
        ({"suite": "sid"}, "--suite: 'sid' is not bookworm or trixie"),
        (
            {"architecture": "amd64"},
            "--arch: a Pi's kernel is arm64's: give --no-kernel for others",
        ),
        ({"packages": ("python3", "--x")}, "--packages: '--x' is no name of a package"),
        ({"packages": ("a",)}, "--packages: 'a' is no name of a package"),
        ({"output": Path("/a.iso")}, "--output: /a.iso ends neither with .img nor with .img.xz"),
        ({"keyring": Path("/nowhere/a.gpg")}, "--keyring: /nowhere/a.gpg is no file"),
        ({"variables": Path("/nowhere/a.yml")}, "--variables: /nowhere/a.yml is no file"),
    ],
)
def test_a_wrong_argument_is_named(changed: dict[str, object], why: str) -> None:
    with pytest.raises(ImageBuildError) as raised:
        replace(ORDER, **changed).check()  # type: ignore[arg-type]
    assert str(raised.value) == why


@pytest.mark.parametrize(
    ("suite", "architecture", "kind"),
    [
        ("bookworm", "arm64", "cp311-aarch64"),
        ("trixie", "arm64", "cp313-aarch64"),
        ("trixie", "amd64", "cp313-x86_64"),
    ],
)
def test_wheels_are_of_the_suites_python_and_the_machine(
    suite: str, architecture: str, kind: str
) -> None:
    order = replace(ORDER, suite=suite, architecture=architecture, has_kernel=False)
    order.check()
    assert order.kind == kind


def test_without_a_gateway_any_suite_is_built_and_no_wheels_are_wanted() -> None:
    order = replace(ORDER, suite="a" * 32, has_gateway=False, output=Path("/a.img.xz"))
    order.check()
    assert order.kind == ""
    with pytest.raises(ImageBuildError, match="no name of a suite"):
        replace(order, suite="a" * 33).check()


LARGEST = 1 << 17


@pytest.mark.parametrize(("name", "least"), [("boot", 36), ("root", 8), ("data", 8)])
def test_a_partition_has_a_least_and_a_largest_size_in_steps_of_four(name: str, least: int) -> None:
    for good in (least, least + 4, LARGEST):
        replace(ORDER, sizes=replace(ImageSizes(), **{name: good})).check()
    for bad in (least - 4, least + 1, least + 2, LARGEST + 4):
        with pytest.raises(ImageBuildError) as raised:
            replace(ORDER, sizes=replace(ImageSizes(), **{name: bad})).check()
        assert str(raised.value) == (
            f"--{name}-mib: {bad} is not {least} to 131072, a multiple of 4"
        )
