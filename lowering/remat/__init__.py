"""Trading time for memory: values are computed again instead of kept."""
