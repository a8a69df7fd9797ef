"""`python -m tcprobe`."""

from tcprobe.cli import main

if __name__ == "__main__":
    main()
