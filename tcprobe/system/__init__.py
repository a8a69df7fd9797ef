"""What is asked of the operating system: files, child processes, signals.

files, digest         files whole or not at all, checksums
npy                   matrices in files of NumPy's format
children, worker      processes, and pools of threads that are not waited for once they are gone
interrupts            signals, standard streams, and running out of memory
"""
