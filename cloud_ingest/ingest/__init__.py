"""What a micro-batch of the job does: finds what is new and decodes it. Without Spark."""
