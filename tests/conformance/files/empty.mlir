// An empty file is an empty module.
