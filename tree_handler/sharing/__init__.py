"""Shared subscriptions over the fleet: who has members, and which gateway's members get what.

Pure: records and the time come in, decisions and records go out.
"""
