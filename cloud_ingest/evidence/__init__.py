"""What the job tells of a fleet and of itself: the watch judges by it, and by nothing else."""
