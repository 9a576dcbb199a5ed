"""What a micro-batch does: finds what is new, decodes it, knows what is held. No Spark."""
