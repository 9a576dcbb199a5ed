"""How a gateway is and what it sees, as an operator is told."""
