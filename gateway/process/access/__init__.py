"""Files that say who may do what, and who is out by them."""
