"""Our packages for the workers of a cluster, which have Python and the libraries and not us."""

from __future__ import annotations

import zipfile
from importlib.util import find_spec
from pathlib import Path

PACKAGES = ("cloud_ingest", "light_dataclasses", "record_formats", "tree_handler")
"""The packages that a task imports."""


def write_zip(target: Path) -> Path:
    """Write a zip that Python imports from, as ``--py-files`` of Spark takes it."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for package in PACKAGES:
            found = find_spec(package)
            assert found is not None and found.origin is not None
            root = Path(found.origin).parent
            for source in sorted(root.rglob("*.py")):
                archive.write(source, f"{package}/{source.relative_to(root)}")
    return target
