"""What outlives a crash: the journal in the log, checkpoints, and the way back."""
