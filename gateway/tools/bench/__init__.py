"""What this machine can do as a gateway: measured on one beside that which serves."""
