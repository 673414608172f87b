"""The decompositions, a family a module."""
