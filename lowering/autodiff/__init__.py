"""Derivatives of functions, in both modes and of any order: an engine, and a table of rules, one an operation and mode."""
