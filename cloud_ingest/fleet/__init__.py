"""The fleet as its messages show it: tables and alerts, folded from the facts of micro-batches."""
