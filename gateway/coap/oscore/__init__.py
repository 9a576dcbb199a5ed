"""Devices that protect their messages themselves (OSCORE, RFC 8613)."""
