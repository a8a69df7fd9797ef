"""Saved measurements: their files, and which table counts where several say something of the same fragment."""
