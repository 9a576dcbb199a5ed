"""Errors for which nothing could be measured."""

from __future__ import annotations


class BenchError(Exception):
    """The measured gateway does not start, does not answer or has ended; the message says which."""
