"""Releases of a Pi and the way back: needs Python alone, and no release that works."""
