"""What each kernel of a compiled function takes, where it came from, and how near it is to what the machine can do."""
