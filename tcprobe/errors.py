"""The errors that a user can cause or meet. Each message says what, which value, and what to do next.

Exit codes of the command line: 0 done; 1 something differs that is not a stated erratum, or a probe
failed; 2 a mistake in the call (click's own code too); 3 the machine lacks something (CuPy, driver,
GPU); 4 a file that is damaged, too new or not ours.
"""


class TcprobeError(Exception):
    """Base of all errors that are shown without a traceback."""

    exit_code = 1


class UsageError(TcprobeError):
    """A name, option or value that does not fit."""

    exit_code = 2


class VariableError(UsageError, ValueError):
    """A formula called with a variable that it does not have, or without one that it needs."""


class EnvironmentUnfitError(TcprobeError):
    """CuPy, the driver, a GPU or a file permission is missing."""

    exit_code = 3


class DataError(TcprobeError):
    """A file that cannot be trusted: damaged, truncated, of a newer schema, or not ours."""

    exit_code = 4


class NewerSchemaError(DataError):
    """A file that a later tcprobe wrote."""


class ProbeError(TcprobeError):
    """What a probe brought back is not what a fragment or a matrix product can bring back."""


class UnreadProbeError(ProbeError):
    """Machine code that the reader does not follow exactly; the message names the opcode or operand."""


class RowError(TcprobeError, ValueError):
    """A row of facts that contradicts itself."""
