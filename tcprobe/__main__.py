"""`python -m tcprobe`, and the console script: Ctrl-C and lack of memory print one line, whatever is imported."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # nothing is imported before `main` has set its hooks: Ctrl-C in an import shows a traceback
if TYPE_CHECKING:
    from sys import UnraisableHookArgs
    from threading import ExceptHookArgs
    from types import TracebackType
    from typing import NoReturn


def main() -> None:
    """Run the command line."""
    sys.excepthook, sys.unraisablehook = uncaught, unraisable
    import gc

    gc.set_threshold(100_000)  # most commands are over before there is garbage: a tenth of their time
    try:
        import threading

        from tcprobe.system import interrupts

        interrupts.prepare()
        interrupts.reserve_numpy_room()
        threading.excepthook = in_thread
        from tcprobe.cli import main as command

        command()
    finally:
        gc.freeze()  # the process ends: looking for garbage would take a tenth of its time again


def uncaught(error_type: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """What comes before or after the command's own care for errors."""
    end(error)
    sys.__excepthook__(error_type, error, trace)


def unraisable(about: UnraisableHookArgs) -> None:
    """What arrives where Python cannot raise, in a destructor or an import's own, still stops the process."""
    end(about.exc_value)
    sys.__unraisablehook__(about)


def in_thread(about: ExceptHookArgs) -> None:
    """What ends a thread without memory ends the process, which may wait for the thread."""
    end(about.exc_value)
    sys.__excepthook__(about.exc_type, about.exc_value or about.exc_type(), about.exc_traceback)


def end(error: BaseException | None) -> None:
    """End the process at once if a signal or lack of memory stopped it; what it started ends too (`children`)."""
    if isinstance(error, KeyboardInterrupt):
        end_with("Stopped.", getattr(error, "code", 130))
    from tcprobe.errors import StarvedError, is_want_of_resources

    if is_want_of_resources(error):
        end_with(f"Error: {StarvedError()}", StarvedError.exit_code)


def end_with(words: str, code: int) -> NoReturn:
    """End the process at once with a line on standard error, as far as that takes it."""
    try:  # not `suppress`, which would be imported
        os.write(2, f"{words}\n".encode())
    finally:
        os._exit(code)


if __name__ == "__main__":
    main()
