"""The bill of materials of a system image is valid SPDX, and says what is known and no more."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from spdx_tools.spdx.parser.parse_anything import parse_file
from spdx_tools.spdx.validation.document_validator import validate_full_spdx_document

from gateway.tools.system_image import licences, packages, spdx
from gateway.tools.system_image.errors import ImageBuildError
from gateway.tools.system_image.packages import BilledPackage
from gateway.tools.system_image.spdx import BilledImage

STATUS = """Package: libc6
Status: install ok installed
Maintainer: GNU Libc Maintainers <debian-glibc@lists.debian.org>
Architecture: arm64
Source: glibc (2.41-12)
Version: 2.41-12+deb13u1
Description: GNU C Library
 a line with: a colon
Homepage: https://www.gnu.org/software/libc/libc.html

Package: removed
Status: deinstall ok config-files
Architecture: arm64
Version: 1

Package: g++-14
Status: install ok installed
Architecture: arm64
Version: 14:1~rc1
"""
COPYRIGHT = """Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/

Files: *
License: LGPL-2.1+ and BSD-tcp_wrappers

Files: debian/*
License: GPL-2+ or Artistic

License: Expat
 Permission is hereby granted
"""
IMAGE = BilledImage("hedgerow-system.img", "0.1.0-trixie-0123", "ab" * 32, 1_790_000_000, "debian")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    status = tmp_path / packages.STATUS
    status.parent.mkdir(parents=True)
    status.write_text(STATUS)
    shipped = tmp_path / "usr/share/doc/libc6"
    shipped.mkdir(parents=True)
    (shipped / "copyright").write_text(COPYRIGHT)
    return tmp_path


def wheelhouse(path: Path, metadata: str) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as wheel:
        wheel.writestr("some_thing-1.0.dist-info/METADATA", metadata)
    with tarfile.open(path, "w") as archive:
        about = tarfile.TarInfo("some_thing-1.0-py3-none-any.whl")
        about.size = len(made.getvalue())
        archive.addfile(about, io.BytesIO(made.getvalue()))
    return made.getvalue()


def faults(told: dict[str, Any], folder: Path) -> list[str]:
    """Return the faults that the SPDX project's own tool finds."""
    file = folder / "bill.spdx.json"
    file.write_text(json.dumps(told))
    return [one.validation_message for one in validate_full_spdx_document(parse_file(str(file)))]


def test_the_bill_has_each_installed_package_and_wheel_and_is_valid(
    root: Path, tmp_path: Path
) -> None:
    data = wheelhouse(
        tmp_path / "wheels.tar",
        "Name: Some_Thing\nVersion: 1.0\nLicense-Expression: MIT\nAuthor: A <a@example.org>\n",
    )
    listed = [*packages.debian(root), *packages.wheels(tmp_path / "wheels.tar")]
    told = spdx.document(IMAGE, listed)
    assert faults(told, tmp_path) == []
    by_name = {one["name"]: one for one in told["packages"]}
    assert by_name.keys() == {"hedgerow-system.img", "libc6", "g++-14", "Some_Thing"}
    libc = by_name["libc6"]
    assert libc["versionInfo"] == "2.41-12+deb13u1"
    assert libc["sourceInfo"] == "built from the source package glibc (2.41-12)"
    assert libc["licenseDeclared"] == (
        "(GPL-2.0-or-later OR Artistic-1.0-Perl) AND "
        "LGPL-2.1-or-later AND LicenseRef-Debian-BSD-tcp-wrappers AND MIT"
    )
    locator = libc["externalRefs"][0]["referenceLocator"]
    assert locator == "pkg:deb/debian/libc6@2.41-12%2Bdeb13u1?arch=arm64"
    assert by_name["g++-14"]["licenseDeclared"] == "NOASSERTION"
    wheel = by_name["Some_Thing"]
    assert wheel["licenseDeclared"] == "MIT"
    assert wheel["checksums"][0]["checksumValue"] == hashlib.sha256(data).hexdigest()
    assert by_name["hedgerow-system.img"]["checksums"][0]["checksumValue"] == "ab" * 32


def test_the_same_content_gives_the_same_bill(root: Path) -> None:
    first, second = (spdx.document(IMAGE, packages.debian(root)) for _ in range(2))
    assert json.dumps(first) == json.dumps(second)


@pytest.mark.parametrize(
    ("synopsis", "expression"),
    [
        ("GPL-2+", "GPL-2.0-or-later"),
        ("GPL-3", "GPL-3.0-only"),
        ("GPL-2.0-only", "GPL-2.0-only"),
        ("LGPL-2.1", "LGPL-2.1-only"),
        ("Expat", "MIT"),
        ("BSD-3-clause", "BSD-3-Clause"),
        ("GPL-1+ or Artistic", "(GPL-1.0-or-later OR Artistic-1.0-Perl)"),
        ("GPL-2+ or AFL-2.1, and Expat", "(GPL-2.0-or-later OR AFL-2.1) AND MIT"),
        ("GPL-3+ with Bison exception", "LicenseRef-Debian-GPL-3-with-Bison-exception"),
    ],
)
def test_debians_short_names_are_spdxs(synopsis: str, expression: str) -> None:
    text = f"Format: https://www.debian.org/copyright-format\n\nFiles: *\nLicense: {synopsis}\n"
    assert licences.debian(text)[0] == expression


def test_a_copyright_file_for_people_asserts_nothing() -> None:
    assert licences.debian("This package was debianised by Anna.\nLicense: GPL-2\n") == (
        "NOASSERTION",
        frozenset(),
    )


def test_a_file_with_more_than_sixty_licences_asserts_nothing() -> None:
    lines = [f"License: own-{number}" for number in range(61)]
    most = licences.debian("\n".join(["Format: 1.0", *lines[:60]]))
    assert (most[0].count(" AND "), len(most[1])) == (59, 60)
    assert licences.debian("\n".join(["Format: 1.0", *lines])) == ("NOASSERTION", frozenset())


@given(names=st.lists(st.text(min_size=1, max_size=70), max_size=5))
@example(names=["|"])
@example(names=[",", "a and ,"])
def test_whatever_a_copyright_file_names_the_bill_is_valid(
    names: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    lines = "\n".join(f"License: {name}" for name in names)
    licence, unknown = licences.debian(f"Format: 1.0\n\n{lines}\n")
    one = BilledPackage("deb", "a", "1", "all", licence=licence, unknown_licences=unknown)
    assert faults(spdx.document(IMAGE, [one]), tmp_path_factory.mktemp("bill")) == []


def test_what_can_not_be_read_of_a_root_or_of_wheels_is_named(tmp_path: Path) -> None:
    with pytest.raises(ImageBuildError) as raised:
        packages.debian(tmp_path)
    assert str(raised.value) == f"{tmp_path}/var/lib/dpkg/status: No such file or directory"
    archive = tmp_path / "wheels.tar"
    archive.write_bytes(b"no tar")
    with pytest.raises(ImageBuildError, match=f"^{archive}: "):
        packages.wheels(archive)
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as wheel:
        wheel.writestr("a", "")
    with tarfile.open(archive, "w") as tar:
        about = tarfile.TarInfo("folder/a-1.whl")
        about.size = len(made.getvalue())
        tar.addfile(about, io.BytesIO(made.getvalue()))
    with pytest.raises(ImageBuildError) as raised:
        packages.wheels(archive)
    assert str(raised.value) == "a-1.whl: 0 files METADATA, and one has to be"


def test_a_copyright_that_is_a_link_means_a_file_of_the_root(root: Path) -> None:
    own = root / "usr/share/doc/g++-14"
    own.mkdir()
    (own / "copyright").symlink_to("/usr/share/doc/libc6/copyright")
    by_name = {one.name: one for one in packages.debian(root)}
    assert by_name["g++-14"].licence == by_name["libc6"].licence != licences.NO_ASSERTION


@pytest.mark.parametrize(
    ("metadata", "licence"),
    [
        ({"license-expression": ["MIT OR Apache-2.0"], "license": ["BSD"]}, "MIT OR Apache-2.0"),
        (
            {
                "classifier": [
                    "License :: OSI Approved :: MIT License",
                    "License :: OSI Approved :: Apache Software License",
                    "License :: OSI Approved",
                    "Topic :: Utilities :: MIT License",
                ],
                "license": ["BSD"],
            },
            "Apache-2.0 OR MIT",
        ),
        ({"classifier": ["Topic :: MIT License"], "license": [" MIT License "]}, "MIT"),
        ({"license": ["as you like"]}, "NOASSERTION"),
        ({"license": []}, "NOASSERTION"),
        ({}, "NOASSERTION"),
    ],
)
def test_a_wheels_licence_is_its_expression_its_classifiers_or_its_text_in_that_order(
    metadata: dict[str, list[str]], licence: str
) -> None:
    assert licences.python(metadata) == licence
