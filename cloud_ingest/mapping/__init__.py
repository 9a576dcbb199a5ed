"""Messages of other makes, read by rules that a file says: which field goes to which column."""
