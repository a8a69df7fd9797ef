"""A stranger's campaign against the command line: hostile files, tables, paths and arguments, and a count.

    python -m tests.hostile                 everything, about ten minutes on two cores
    python -m tests.hostile --category csv --case 'up to*' --keep DIR

It knows of tcprobe what --help, the README and the checksum of a saved file say, nothing else. Which tcprobe: that
beside the running Python, or the one that the variable TCPROBE names.
"""
