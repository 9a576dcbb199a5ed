"""How a build ends other than well."""

from __future__ import annotations


class ImageBuildError(Exception):
    """The image can't be built; the message says why."""
