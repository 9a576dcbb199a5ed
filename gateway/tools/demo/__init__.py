"""A fleet on one machine, told as a story: what `hedgerow demo` runs and the system tests check."""
