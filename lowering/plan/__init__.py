"""From kernels to a native program: sizes, buffers and their memory, instructions."""
