"""A process that works for this program: `python -m tcprobe.system.worker MODULE [ARGUMENT]...` runs a module of it.

If memory runs out before the module can report it, or in another thread, the exit code does: `children.exit_code`.
"""

from __future__ import annotations

import os
import runpy
import sys
import threading
from typing import TYPE_CHECKING

from tcprobe.errors import is_want_of_resources
from tcprobe.system import interrupts
from tcprobe.system.children import STARVED

if TYPE_CHECKING:
    from sys import UnraisableHookArgs


def command(module: str, *arguments: str) -> tuple[str, ...]:
    """The command that starts a worker."""
    return (sys.executable, "-m", __name__, module, *arguments)


def main() -> None:
    """Run the module as if it had been started itself."""
    sys.unraisablehook, threading.excepthook = _unraisable, _in_thread
    interrupts.reserve_numpy_room()
    del sys.argv[0]
    try:
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    except Exception as error:
        _end_starved(error)
        raise


def _end_starved(error: BaseException | None) -> None:
    if is_want_of_resources(error):
        os._exit(STARVED)


def _unraisable(about: UnraisableHookArgs) -> None:
    _end_starved(about.exc_value)
    sys.__unraisablehook__(about)


def _in_thread(about: threading.ExceptHookArgs) -> None:
    _end_starved(about.exc_value)
    threading.__excepthook__(about)


if __name__ == "__main__":
    main()
