"""What a micro-batch of the job does: finds what is new, decodes it, knows what is held. No Spark."""
