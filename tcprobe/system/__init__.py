"""What is asked of the operating system: files, child processes, signals.

files, digest         files whole or not at all, checksums
children, worker      processes
interrupts            signals, standard streams, and want of memory
"""
