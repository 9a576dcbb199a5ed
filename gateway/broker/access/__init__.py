"""Access of clients: who may connect, and what they may publish, subscribe to and receive."""
