"""What is asked of the operating system: files, child processes, signals."""
