"""Evidence of the job, on a fleet and on itself: the watch judges by it, and by nothing else."""
