"""Licences as SPDX expressions: of Debian's copyright files (DEP-5), and of Python's metadata.

Pure. What has no SPDX identifier of its own gets a LicenseRef, which says where its text stands.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

NO_ASSERTION = "NOASSERTION"
_MOST_LICENCES = 60
"""Of one package; GCC's runtime has some thirty."""
_MOST_NAME = 60

_DEBIAN = {
    "agpl-3": "AGPL-3.0-only",
    "agpl-3+": "AGPL-3.0-or-later",
    "apache-2": "Apache-2.0",
    "artistic": "Artistic-1.0-Perl",
    "bsl-1": "BSL-1.0",
    "cc0": "CC0-1.0",
    "expat": "MIT",
    "fsf-all-permissive": "FSFAP",
    "gfdl-1.3": "GFDL-1.3-only",
    "gfdl-1.3+": "GFDL-1.3-or-later",
    "gfdl-niv-1.3": "GFDL-1.3-no-invariants-only",
    "gfdl-niv-1.3+": "GFDL-1.3-no-invariants-or-later",
    "gpl": "GPL-1.0-or-later",
    "lgpl": "LGPL-2.0-or-later",
    "mpl-1.1": "MPL-1.1",
    "mpl-2.0": "MPL-2.0",
    "python-2.0": "Python-2.0",
    "psf-2": "PSF-2.0",
    "x11": "X11",
    "zlib": "Zlib",
}
"""The meaning of Debian's short names (copyright format 1.0, section 7.1)."""
_SPDX = (
    "0BSD AFL-2.1 AGPL-3.0-only AGPL-3.0-or-later Apache-1.1 Apache-2.0 Artistic-2.0 Beerware",
    "BSD-2-Clause BSD-3-Clause BSD-4-Clause BSL-1.0 CC-BY-4.0 CC0-1.0 FSFAP FSFUL FSFULLR",
    "GPL-1.0-only GPL-1.0-or-later GPL-2.0-only GPL-2.0-or-later GPL-3.0-only GPL-3.0-or-later ISC",
    "LGPL-2.0-only LGPL-2.0-or-later LGPL-2.1-only LGPL-2.1-or-later LGPL-3.0-only",
    "LGPL-3.0-or-later MIT MPL-1.1 MPL-2.0 PSF-2.0 Python-2.0 Unicode-DFS-2016 Unicode-3.0",
    "Unlicense Zlib curl OLDAP-2.8 OpenSSL ZPL-2.1",
)
_BY_LOWER = {name.lower(): name for line in _SPDX for name in line.split()}
_CLASSIFIERS = {
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD-3-Clause",
    "GNU Lesser General Public License v3 (LGPLv3)": "LGPL-3.0-only",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
    "The Unlicense (Unlicense)": "Unlicense",
}
_FREE_TEXT = {
    "apache 2": "Apache-2.0",
    "apache 2.0": "Apache-2.0",
    "apache license 2.0": "Apache-2.0",
    "apache license, version 2.0": "Apache-2.0",
    "apache-2.0": "Apache-2.0",
    "bsd": "BSD-3-Clause",
    "bsd-3-clause": "BSD-3-Clause",
    "mit": "MIT",
    "mit license": "MIT",
    "psf-2.0": "PSF-2.0",
}


def debian(copyright_text: str) -> tuple[str, frozenset[str]]:
    """Return the licence of a package by its copyright file.

    Args:
        copyright_text: as `/usr/share/doc/PACKAGE/copyright` has it.

    Returns:
        An SPDX expression, or `NO_ASSERTION` where the file is for people alone or too long; and
        the names of what has no SPDX identifier, by which `reference` names it.

    """
    if not re.match(r"\s*Format(-Specification)?:", copyright_text):
        return NO_ASSERTION, frozenset()
    found = re.findall(r"^License:[ \t]*(\S.*)$", copyright_text, re.MULTILINE)
    terms: dict[str, None] = {}
    unknown: set[str] = set()
    for synopsis in found:
        if len(synopsis) <= _MOST_NAME:
            term, own = _expression(synopsis)
            terms[term] = None
            unknown |= own
    if not terms or len(terms) > _MOST_LICENCES:
        return NO_ASSERTION, frozenset()
    return " AND ".join(sorted(terms)), frozenset(unknown)


def python(metadata: Mapping[str, list[str]]) -> str:
    """Return the licence of a Python package by its METADATA; `NO_ASSERTION` where that does not
    say.

    Args:
        metadata: values by the fields' names in lower case.

    """
    if expression := metadata.get("license-expression"):
        return expression[0]
    classified = {
        _CLASSIFIERS.get(one.rpartition("::")[2].strip(), "")
        for one in metadata.get("classifier", ())
        if one.startswith("License ::")
    } - {""}
    if classified:
        return " OR ".join(sorted(classified))
    text = (metadata.get("license") or [""])[0].strip().lower()
    return _FREE_TEXT.get(text, NO_ASSERTION)


def reference(name: str) -> str:
    """Return the LicenseRef of a licence without an SPDX identifier (SPDX 2.3, section 10.1)."""
    return f"LicenseRef-Debian-{re.sub(r'[^A-Za-z0-9.-]+', '-', name).strip('-') or 'unnamed'}"


def _expression(synopsis: str) -> tuple[str, set[str]]:
    """Read a synopsis: "A or B", "A and B", "A or B, and C" (copyright format, section 7.2)."""
    unknown: set[str] = set()
    parts = []
    for part in re.split(r",\s*and\s+|\s+and\s+", synopsis, flags=re.IGNORECASE):
        names = re.split(r",?\s+or\s+|\s*\|\s*", part.strip(" ,"), flags=re.IGNORECASE)
        atoms = list(dict.fromkeys(_atom(name.strip(), unknown) for name in names if name.strip()))
        if atoms:
            parts.append(atoms[0] if len(atoms) == 1 else f"({' OR '.join(atoms)})")
    if not parts:  # commas and bars alone
        return reference(synopsis), {synopsis}
    return " AND ".join(parts), unknown


def _atom(name: str, unknown: set[str]) -> str:
    lower = name.lower()
    versioned = re.fullmatch(r"((?:a|l)?gpl)-(\d)(?:\.(\d))?(\.0)?(-only|-or-later|\+)?", lower)
    guesses: Iterable[str] = (_DEBIAN.get(lower, ""), lower)
    if versioned is not None:
        later = "-or-later" if versioned[5] in ("+", "-or-later") else "-only"
        guesses = (f"{versioned[1]}-{versioned[2]}.{versioned[3] or 0}{later}",)
    for guess in guesses:
        if known := _BY_LOWER.get(guess.lower()) or _BY_LOWER.get(guess.lower().removesuffix(".0")):
            return known
        if guess in _DEBIAN.values():
            return guess
    unknown.add(name)
    return reference(name)
