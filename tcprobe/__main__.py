"""`python -m tcprobe`, and the console script: whatever is imported, Ctrl-C is one line."""

from __future__ import annotations

import gc
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sys import UnraisableHookArgs


def main() -> None:
    """Run the command line."""
    sys.unraisablehook = unraisable
    gc.set_threshold(100_000)  # most commands are over before there is garbage: a tenth of their time
    try:
        from tcprobe.system.interrupts import prepare

        prepare()
        from tcprobe.cli import main as command

        command()
    except KeyboardInterrupt as stopped:
        end(stopped)
    finally:
        gc.freeze()  # the process ends: looking for garbage would take a tenth of its time again


def unraisable(about: UnraisableHookArgs) -> None:
    """A signal that arrived where Python cannot raise, in a destructor or an import's own, still stops the process."""
    if isinstance(about.exc_value, KeyboardInterrupt):
        end(about.exc_value)
    sys.__unraisablehook__(about)


def end(stopped: KeyboardInterrupt) -> None:
    """End the process at once; what it started ends too (`children`)."""
    os.write(2, b"Stopped.\n")
    os._exit(getattr(stopped, "code", 130))


if __name__ == "__main__":
    main()
