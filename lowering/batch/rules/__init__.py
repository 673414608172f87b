"""The batching rules, a family a module."""
