"""Packages in a root: Debian's by dpkg's status, Python's by their wheels."""

from __future__ import annotations

import email.parser
import hashlib
import io
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import field
from pathlib import Path

from gateway.tools.system_image import licences
from gateway.tools.system_image.errors import ImageBuildError
from light_dataclasses import dataclass

STATUS = "var/lib/dpkg/status"
_MOST_COPYRIGHT_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class BilledPackage:
    """A line of the bill of materials.

    Attributes:
        kind: ``deb`` or ``pypi``, as package URLs name them.
        name: of the package.
        version: of the package.
        architecture: of a Debian package; empty for Python's.
        source: the source package and its version; empty where it is the same.
        supplier: who maintains it.
        homepage: where it is at home.
        licence: an SPDX expression.
        unknown_licences: names in it that have no SPDX identifier.
        sha256: of its wheel; empty for Debian's, of which dpkg keeps none.

    """

    kind: str
    name: str
    version: str
    architecture: str = ""
    source: str = ""
    supplier: str = ""
    homepage: str = ""
    licence: str = licences.NO_ASSERTION
    unknown_licences: frozenset[str] = field(default=frozenset())
    sha256: str = ""


def debian(root: Path) -> list[BilledPackage]:
    """Return the installed packages, by name.

    Raises:
        ImageBuildError: dpkg's status can't be read.

    """
    try:
        text = (root / STATUS).read_text(errors="replace")
    except OSError as error:
        raise ImageBuildError(f"{root / STATUS}: {error.strerror}") from error
    found = [
        _debian_package(root, fields)
        for fields in stanzas(text)
        if fields.get("status", "").endswith(" installed")
    ]
    return sorted(found, key=lambda one: (one.name, one.architecture))


def stanzas(text: str) -> Iterator[dict[str, str]]:
    """Yield the paragraphs of a control file, their fields in lower case (deb822(5))."""
    for paragraph in text.split("\n\n"):
        fields: dict[str, str] = {}
        for line in paragraph.splitlines():
            if line[:1] not in (" ", "\t") and ":" in line:
                name, _, value = line.partition(":")
                fields[name.lower()] = value.strip()
        if "package" in fields:
            yield fields


def wheels(archive: Path) -> list[BilledPackage]:
    """Return the wheels of an archive, by name.

    Args:
        archive: a tar with wheels, as the role gateway makes it.

    Raises:
        ImageBuildError: it can't be read, or a wheel has no metadata.

    """
    found = []
    try:
        with tarfile.open(archive) as opened:
            for member in opened.getmembers():
                file = opened.extractfile(member)
                if file is not None and member.name.endswith(".whl"):
                    found.append(_wheel(Path(member.name).name, file.read()))
    except (OSError, tarfile.TarError, zipfile.BadZipFile) as error:
        raise ImageBuildError(f"{archive}: {error}") from error
    return sorted(found, key=lambda one: one.name.lower())


def _debian_package(root: Path, fields: dict[str, str]) -> BilledPackage:
    path = root / f"usr/share/doc/{fields['package']}/copyright"
    licence, unknown = licences.NO_ASSERTION, frozenset[str]()
    try:
        # A link may be absolute, and mean a file of the root.
        if path.is_symlink() and path.readlink().is_absolute():
            path = root / str(path.readlink()).lstrip("/")
        with path.open(errors="replace") as file:
            licence, unknown = licences.debian(file.read(_MOST_COPYRIGHT_BYTES))
    except OSError:
        pass  # a few packages have none of their own, and the bill says that it is not known
    return BilledPackage(
        "deb",
        fields["package"],
        fields.get("version", ""),
        fields.get("architecture", ""),
        fields.get("source", ""),
        fields.get("maintainer", ""),
        fields.get("homepage", ""),
        licence,
        unknown,
    )


def _wheel(file_name: str, data: bytes) -> BilledPackage:
    with zipfile.ZipFile(io.BytesIO(data)) as wheel:
        names = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
        if len(names) != 1:
            raise ImageBuildError(f"{file_name}: {len(names)} files METADATA, and one has to be")
        message = email.parser.BytesParser().parsebytes(wheel.read(names[0]), headersonly=True)
    metadata: dict[str, list[str]] = {}
    for name, value in message.items():
        metadata.setdefault(name.lower(), []).append(str(value))
    urls = [one.partition(",")[2].strip() for one in metadata.get("project-url", ())]
    return BilledPackage(
        "pypi",
        metadata["name"][0],
        metadata["version"][0],
        supplier=(metadata.get("author") or metadata.get("author-email") or [""])[0],
        homepage=(metadata.get("home-page") or urls or [""])[0],
        licence=licences.python(metadata),
        sha256=hashlib.sha256(data).hexdigest(),
    )
