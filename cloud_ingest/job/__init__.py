"""The job: Spark, one micro-batch after the other, and its report."""
