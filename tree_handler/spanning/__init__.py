"""The spanning tree: election, feasibility, agreement, port roles (rows B2 to B8)."""
