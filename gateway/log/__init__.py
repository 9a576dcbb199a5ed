"""The append-only log of batches."""
