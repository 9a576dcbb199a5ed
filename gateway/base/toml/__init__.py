"""Reads TOML: a file into typed sections, the checks of their values, and where a key stands."""
