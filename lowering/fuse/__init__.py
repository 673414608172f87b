"""`prim` to `kernel`: loop nests over index maps, as few passes over memory as possible."""
