"""The derivative rules, a family a module."""
