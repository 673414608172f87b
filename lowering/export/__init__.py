"""Programs for others: StableHLO text and NumPy source."""
