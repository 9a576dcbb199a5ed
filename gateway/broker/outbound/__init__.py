"""The way out: from a message to the bytes that a receiver is sent."""
