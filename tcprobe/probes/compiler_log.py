"""Which kernels of a module a PTX compiler refused, according to its error log.

>>> from tcprobe.probes.compiler_log import errors_by_line
>>> errors_by_line("ptxas x, line 7; error   : Feature '.kind::f8f6f4' not supported on .target 'sm_90'")
{7: "Feature '.kind::f8f6f4' not supported on .target 'sm_90'"}

ptxas and the driver's compiler report all refused instructions of a module at once, by line.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tcprobe.isa.target import version
from tcprobe.probes.ptx import Kernel
from tcprobe.system.children import one_line

_LINE = re.compile(r"line\s+([0-9]{1,9})\s*;\s*(?:error|fatal)\s*:\s*(.*)", re.IGNORECASE)
HEADER_LINES = 4


def errors_by_line(log: str) -> dict[int, str]:
    """The first error on each line, by line number."""
    first_errors: dict[int, str] = {}
    for number, words in _LINE.findall(log):
        first_errors.setdefault(int(number), one_line(words))
    return first_errors


def blame(log: str, kernels: Sequence[Kernel]) -> dict[str, str]:
    """The error of each refused kernel, by name. `kernels` must be in the order of the module.

    An error in the header (an unknown `.version` or `.target`) is blamed on the kernels that need the highest PTX
    version.
    """
    blamed: dict[str, str] = {}
    errors = errors_by_line(log)
    first = HEADER_LINES + 1
    for kernel in kernels:
        last = first + kernel.text.count("\n")
        words = next((w for n, w in errors.items() if first <= n <= last), None)
        if words:
            blamed[kernel.name] = words
        first = last + 1
    header = next((w for n, w in errors.items() if n <= HEADER_LINES), None)
    if header and not blamed and kernels:
        highest = max((k.target.ptx for k in kernels), key=version)
        blamed = {k.name: f"needs PTX {highest}: {header}" for k in kernels if k.target.ptx == highest}
    return blamed
