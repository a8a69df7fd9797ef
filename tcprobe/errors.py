"""The errors that a user can cause or meet. Each message says what, which value, and what to do next.

Exit codes of the command line: 0 done; 1 something differs that is not a stated erratum, a probe failed, or devices
disagree without a majority; 2 a mistake in the call (click's own code too); 3 the machine lacks something (CuPy,
driver, GPU, room on the disk, a standard output that takes what is written); 4 a file that is damaged, too new or not
ours; 70 an error of tcprobe itself (EX_SOFTWARE of sysexits.h); 128 + n ended by signal n: 130 Ctrl-C, 143 SIGTERM,
141 where the reader of a pipe has gone.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import TypeVar

T = TypeVar("T")
ADVICE = "raise the limits (`ulimit -v`, `ulimit -u`), or end other programs."
# as Python's threads, locks and calls say it, and the loader of shared libraries
STARVED_WORDS = (
    "can't start new thread",
    "can't allocate",
    "cannot allocate memory",
    "Cannot allocate memory",
    "failed to map segment",
    "cannot map zero-fill pages",
    "cannot create shared object descriptor",
    "without setting an exception",
    "without exception set",
)


class TcprobeError(Exception):
    """Base of all errors that are shown without a traceback."""

    exit_code = 1


class UsageError(TcprobeError):
    """A name, option or value that does not fit. By `topic` and `about` the command line says which command helps."""

    exit_code = 2

    def __init__(self, message: str = "", topic: str = "", **about: str) -> None:
        super().__init__(message)
        self.topic, self.about = topic, about


def check_choice(name: str, value: object, allowed_words: Collection[object]) -> None:
    """UsageError unless the value of parameter `name` is one of `allowed_words`."""
    if not isinstance(value, Hashable) or value not in allowed_words:
        raise UsageError(f"`{name}` {str(value)[:60]!r}: one of {', '.join(map(str, allowed_words))} is needed.")


def answer_or_none(ask: Callable[[], T]) -> T | None:
    """What `ask` gives; None where it says by UsageError that there is none, for who tries one thing after another."""
    try:
        return ask()
    except UsageError:
        return None


class AmbiguousError(UsageError):
    """A name that means several things where one is asked for: its `choices`, by id."""

    def __init__(self, message: str = "", name: str = "", choices: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.name, self.choices = name, tuple(choices)
        self.commands: list[str] = []  # to paste, where the command line knows them


class UnknownNameError(UsageError):
    """A name that means nothing: its nearest `choices`, by id, none where nothing is near; `numbers` beside it."""

    def __init__(
        self,
        message: str = "",
        topic: str = "",
        name: str = "",
        choices: Sequence[str] = (),
        numbers: Sequence[int] = (),
        **about: str,
    ) -> None:
        super().__init__(message, topic, **about)
        self.name, self.choices, self.numbers = name, tuple(choices), tuple(numbers)
        self.commands: list[str] = []  # to paste, where the command line knows them


class VariableError(UsageError, ValueError):
    """A formula called with a variable that it does not have, or without one that it needs."""


class NoMajorityError(TcprobeError):
    """As many devices found one thing as another: `about` says of what, `runs` what each found. Exit code 1."""

    def __init__(self, message: str = "", about: Mapping[str, str] | None = None, runs: Sequence[object] = ()) -> None:
        super().__init__(message)
        self.about, self.runs = dict(about or {}), list(runs)

    def to_json(self) -> dict[str, object]:
        """Plain data, instead of the answer."""
        return {**self.about, "status": "contradicted", "runs": self.runs}


class EnvironmentUnfitError(TcprobeError):
    """CuPy, the driver, a GPU or a file permission is missing."""

    exit_code = 3


class StarvedError(TcprobeError):
    """The system gave no more memory, threads or processes. Nobody may take that for another fault and go on."""

    exit_code = 3

    def __init__(self, _message: str = "") -> None:
        limit = _address_space()
        bound = f" (the address space is limited to {limit >> 20} MiB by `ulimit -v`)" if limit else ""
        super().__init__(f"the system has no more memory, threads or processes{bound}: {ADVICE}")


class DataError(TcprobeError):
    """A file that cannot be trusted: damaged, truncated, of a newer schema, or not ours."""

    exit_code = 4


class NewerSchemaError(DataError):
    """A file that a later tcprobe wrote."""


class ProbeError(TcprobeError):
    """What a probe brought back is not what a fragment or a matrix product can bring back."""


class UnmeasuredError(ProbeError):
    """A table that a conclusion rests on was not measured."""


class UnreadProbeError(ProbeError):
    """Machine code that the reader does not follow exactly; the message names the opcode or operand."""


class RowError(TcprobeError, ValueError):
    """A row of facts that contradicts itself."""


class InternalError(TcprobeError):
    """What should not happen: an error of tcprobe itself."""

    exit_code = 70


def class_named(name: str) -> type[TcprobeError]:
    """The class of this name: an error that came from another process as a name and words."""
    kinds, by_name = [TcprobeError], {}
    while kinds:
        kind = kinds.pop()
        by_name[kind.__name__] = kind
        kinds += kind.__subclasses__()
    return by_name.get(name, TcprobeError)


def understood(error: Exception) -> TcprobeError:
    """Any error in these terms: what the system refuses is the machine's, the unexpected is tcprobe's own."""
    if is_want_of_resources(error):
        return StarvedError()
    if isinstance(error, TcprobeError):
        return error
    if not isinstance(error, OSError):
        return InternalError(f"internal error, please report it: {type(error).__name__}: {error}")
    kind = UsageError if error.errno == errno.ENAMETOOLONG else EnvironmentUnfitError
    return kind(f"{_system_words(error)}{error.strerror or error}.")


def is_want_of_resources(error: BaseException | None) -> bool:
    """Whether an error, or one that it came of, says that memory, threads or processes ran out."""
    while error and not _is_want(error):
        error = error.__cause__ or error.__context__
    return error is not None


def _is_want(error: BaseException) -> bool:
    """EAGAIN: a process or thread cannot be started. A stream that nobody reads gives it too, and counts characters."""
    if isinstance(error, OSError) and error.errno in (errno.ENOMEM, errno.EAGAIN):
        return not hasattr(error, "characters_written")
    if isinstance(error, OSError | RuntimeError | ImportError | SystemError):
        return any(words in str(error) for words in STARVED_WORDS)
    return isinstance(error, MemoryError | StarvedError)


def _address_space() -> int | None:
    """The limit of this process's address space in bytes, None where there is none."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return None if limit == resource.RLIM_INFINITY else limit


def _system_words(failure: OSError) -> str:
    """What the system refused. Files are opened by name; what fails without one is written, to standard output."""
    if failure.filename is not None:
        return f"{failure.filename}: "
    writing = failure.errno in (errno.EBADF, errno.EFBIG, errno.EIO, errno.ENOSPC)
    return "the output cannot be written: " if writing else ""


def debugging() -> bool:
    """Whether the environment asks for tracebacks: TCPROBE_DEBUG=1."""
    return os.environ.get("TCPROBE_DEBUG") == "1"
