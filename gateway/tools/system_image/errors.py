"""Errors with which a build ends."""

from __future__ import annotations


class ImageBuildError(Exception):
    """The image can't be built; the message says why."""
