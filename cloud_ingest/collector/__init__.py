"""The collector: a leaf of the tree that spools what comes, and what it may let go of."""
