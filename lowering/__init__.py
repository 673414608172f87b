"""The passes, and what makes a program run: code generation and the native run time."""
