"""Tags that a rule gives to its messages."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from cloud_ingest.mapping.sources import Template, TextSource
from cloud_ingest.mapping.values import MAX_NAME_LENGTH, bounded


class TemplateTags:
    """Tags of topics alone."""

    def __init__(self, tags: Mapping[str, str], names: Collection[str]) -> None:
        self._templates = {name: Template(text, names) for name, text in tags.items()}

    def fill(self, parts: Mapping[str, str]) -> dict[str, str]:
        """Return the tags of a message.

        Raises:
            RecordError: one is too long; the message names it.

        """
        return {
            name: bounded(f"tags.{name}", template.fill(parts), MAX_NAME_LENGTH)
            for name, template in self._templates.items()
        }


class JsonTags:
    """Tags of topics and of fields of a document."""

    def __init__(self, tags: Mapping[str, str], names: Collection[str]) -> None:
        self._sources = {name: TextSource(text, names) for name, text in tags.items()}

    def fill(self, document: Any, parts: Mapping[str, str]) -> dict[str, str]:
        """Return the tags of a message; those whose field is missing are left out.

        Raises:
            RecordError: one is no text or too long; the message names it.

        """
        found = {
            name: source.text(f"tags.{name}", document, parts, MAX_NAME_LENGTH)
            for name, source in self._sources.items()
        }
        return {name: text for name, text in found.items() if text is not None}
