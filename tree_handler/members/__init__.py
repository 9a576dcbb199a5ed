"""Membership of the fleet: records, the hierarchy that follows, suspects (rows A1, A2)."""
