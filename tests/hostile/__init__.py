"""A stranger's campaign against the command line: hostile files, tables, paths and arguments, and a count.

    python -m tests.hostile                 everything, about ten minutes on two cores
    python -m tests.hostile --category csv --case 'bounds*' --keep DIR

It knows of tcprobe what --help, the README and the checksum of a saved file say, nothing else.
"""
