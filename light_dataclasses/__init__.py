"""Dataclasses as the standard library's, of which a start makes hundreds in little time."""

from light_dataclasses.decorator import dataclass

__all__ = ["dataclass"]
