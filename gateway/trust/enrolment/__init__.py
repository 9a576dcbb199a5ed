"""How a new gateway gets its certificate with a token, and how it follows the fleet's trust."""
