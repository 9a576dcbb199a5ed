"""Promises of speed and size, each held against other programs in the same run.

Every benchmark is ``python -m benchmarks.NAME [--quick] [--json FILE]``, run from a checkout.
"""
