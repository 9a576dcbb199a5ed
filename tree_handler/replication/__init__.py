"""Replication of batches: what goes to whom, in which order, and how it is repaired."""
