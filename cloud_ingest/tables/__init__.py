"""The tables: their schemas, where they stand, how rows come in, and who looks after them."""
