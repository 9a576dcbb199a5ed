"""The bill of materials of an image, as SPDX 2.3 in JSON (ISO/IEC 5962). Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from gateway.tools.system_image import licences
from gateway.tools.system_image.packages import BilledPackage
from light_dataclasses import dataclass

NAMESPACE = "https://hedgerow.invalid/spdx/system/"
"""Identifies a document, and is no address (SPDX 2.3, section 6.5)."""
_IMAGE = "SPDXRef-Image"


@dataclass(frozen=True, slots=True)
class BilledImage:
    """The image that a bill is of.

    Attributes:
        name: of its file.
        version: of the system.
        sha256: of the image's file, as it is published.
        epoch_s: its time, in seconds since 1970.
        distribution: ``debian`` or another one, as package URLs have it.

    """

    name: str
    version: str
    sha256: str
    epoch_s: int
    distribution: str


def document(image: BilledImage, packages: Iterable[BilledPackage]) -> dict[str, Any]:
    """Return the document.

    Args:
        image: what of.
        packages: what is in it.

    """
    listed = list(packages)
    created = datetime.fromtimestamp(image.epoch_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    unknown = sorted({name for one in listed for name in one.unknown_licences})
    texts = {licences.reference(name): name for name in unknown}
    ids = [
        f"SPDXRef-{one.kind}-{_id(one.name)}-{_id(one.architecture)}".rstrip("-") for one in listed
    ]
    return {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"{image.name} {image.version}",
        "documentNamespace": f"{NAMESPACE}{quote(image.version)}/{image.sha256}",
        "creationInfo": {"created": created, "creators": ["Tool: hedgerow-system-image"]},
        "packages": [
            {
                "SPDXID": _IMAGE,
                "name": image.name,
                "versionInfo": image.version,
                "supplier": "NOASSERTION",
                "downloadLocation": "NOASSERTION",
                "filesAnalyzed": False,
                "primaryPackagePurpose": "OPERATING-SYSTEM",
                "checksums": [{"algorithm": "SHA256", "checksumValue": image.sha256}],
                "licenseConcluded": "NOASSERTION",
                "licenseDeclared": "NOASSERTION",
                "copyrightText": "NOASSERTION",
            },
            *(_package(one, named, image) for one, named in zip(listed, ids, strict=True)),
        ],
        "hasExtractedLicensingInfos": [
            {
                "licenseId": reference,
                "name": name,
                "extractedText": f'"{name}" of the files /usr/share/doc/*/copyright in the image',
            }
            for reference, name in texts.items()
        ],
        "relationships": [
            _relation("SPDXRef-DOCUMENT", "DESCRIBES", _IMAGE),
            *(_relation(_IMAGE, "CONTAINS", named) for named in ids),
        ],
    }


def _package(one: BilledPackage, named: str, image: BilledImage) -> dict[str, Any]:
    purl = f"pkg:{one.kind}/"
    if one.kind == "deb":
        purl += f"{image.distribution}/{quote(one.name)}@{quote(one.version, safe='')}"
        purl += f"?arch={one.architecture}"
    else:
        purl += f"{quote(one.name.lower().replace('_', '-'))}@{quote(one.version, safe='')}"
    told: dict[str, Any] = {
        "SPDXID": named,
        "name": one.name,
        "versionInfo": one.version,
        "supplier": _supplier(one.supplier),
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "licenseConcluded": "NOASSERTION",
        "licenseDeclared": one.licence,
        "copyrightText": "NOASSERTION",
        "externalRefs": [
            {
                "referenceCategory": "PACKAGE-MANAGER",
                "referenceType": "purl",
                "referenceLocator": purl,
            }
        ],
    }
    if re.fullmatch(r"https?://[^\s]+", one.homepage):
        told["homepage"] = one.homepage
    if one.source:
        told["sourceInfo"] = f"built from the source package {one.source}"
    if one.sha256:
        told["checksums"] = [{"algorithm": "SHA256", "checksumValue": one.sha256}]
    return told


def _supplier(text: str) -> str:
    found = re.fullmatch(r"\s*([^<>()]+?)\s*(?:<([^<>\s]+@[^<>\s]+)>)?\s*", text)
    if found is None:
        return "NOASSERTION"
    return f"Organization: {found[1]}" + (f" ({found[2]})" if found[2] else "")


def _relation(of: str, kind: str, to: str) -> dict[str, str]:
    return {"spdxElementId": of, "relationshipType": kind, "relatedSpdxElement": to}


def _id(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9.-]", lambda found: f".{ord(found[0]):x}.", text)
