"""Two systems on one card, A and B: which one runs, which is on trial, and the way back."""
