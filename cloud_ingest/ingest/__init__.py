"""The work of a micro-batch: finds what is new, decodes it, knows what is held. No Spark."""
