"""Trouble of a way out as a person reads it: what is wrong, and not of which type an error is."""

from __future__ import annotations

from alerts.text import plain

_CHARACTERS = 300


def in_words(error: BaseException) -> str:
    """Return what kept a way from taking records, in one line.

    Args:
        error: of the system, of TLS, or of a mail server; of any other kind its type is told.

    """
    return plain(_words(error)[:_CHARACTERS])


def _words(error: BaseException) -> str:
    name, text = type(error).__name__, str(error)
    if not isinstance(error, OSError):
        return f"{name}: {text}"
    if (code := getattr(error, "smtp_code", None)) is not None:
        said = getattr(error, "smtp_error", b"")
        words = said.decode(errors="replace") if isinstance(said, bytes) else str(said)
        return f"the mail server says {code} {words}"
    if verdict := getattr(error, "verify_message", ""):  # of `ssl`, which not every way needs
        return f"its certificate: {verdict}"
    if reason := getattr(error, "reason", ""):
        return f"TLS: {reason.replace('_', ' ').lower()}"
    where = f"{error.filename}: " if error.filename else ""
    return f"{where}{error.strerror}" if error.strerror else text or name
