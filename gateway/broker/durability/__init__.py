"""Durable state of the broker: the journal in the log, checkpoints, and the way back."""
