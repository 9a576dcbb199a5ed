"""Backups of a gateway: made while it runs, kept elsewhere, checked, and put back.

It needs nothing but Python's standard library, and the programs that its modules name: it also
runs on a Pi beside whatever release that has.
"""
