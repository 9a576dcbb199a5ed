"""The tables for people and programs: SQL over all of them, and a frame of one sensor."""

from __future__ import annotations

from cloud_ingest.query.frames import frame
from cloud_ingest.query.lake import Lake, LakeError

__all__ = ["Lake", "LakeError", "frame"]
