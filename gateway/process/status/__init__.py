"""Status of a gateway and what it sees, as an operator is told."""
