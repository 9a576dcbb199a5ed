"""The spool that collectors write and the job reads: segments of batches, and files beside them."""
