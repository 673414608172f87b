"""The command-line tools. They read options and files, and call the library."""
