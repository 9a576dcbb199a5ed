"""A change of one key as people and pages write it: ``KEY=VALUE``."""

from __future__ import annotations

from gateway.base.toml import written_value
from gateway.base.toml.edited import KeyChange
from gateway.base.toml.written_value import WrittenKeyError
from gateway.process.configuration import keys as config_keys


class WrittenChangeError(ValueError):
    """A text is no change of a key: ``str(error)`` is one line."""


def set_to(pair: str) -> KeyChange:
    """Return the change that a text asks for.

    Args:
        pair: ``KEY=VALUE``; the value is TOML, or a text as it stands where the key is one.

    Raises:
        WrittenChangeError: it is none, or about sensors, which are changed as tables.

    """
    name, is_pair, text = pair.partition("=")
    if not is_pair:
        raise WrittenChangeError(f"{pair!r} is not KEY=VALUE")
    path, value = _key(name.strip()), written_value.value(text)
    if path[0] == "sensors":
        raise WrittenChangeError("`hedgerow sensors` adds, changes and removes sensors")
    known = next((key for key in config_keys.all_keys() if key.path == ".".join(path)), None)
    is_text = known is not None and known.kind_in_words in ("text", "path")
    return KeyChange(path, text if is_text and not isinstance(value, str) else value)


def unset(name: str) -> KeyChange:
    """Return the change that takes a key out.

    Raises:
        WrittenChangeError: it is no key.

    """
    return KeyChange(_key(name), None)


def _key(text: str) -> tuple[str, ...]:
    try:
        return written_value.key(text)
    except WrittenKeyError as error:
        raise WrittenChangeError(str(error)) from error
