"""Console for an operator's programs over HTTP: metrics and health."""
