"""Source lines of a cubin with line information: of every instruction the line of the file that nothing is inlined in.

nvdisasm reads the tables. Where it does not take a cubin, or gives no answer in time, there are no lines.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from tcprobe.errors import EnvironmentUnfitError
from tcprobe.sass.decode import LINE
from tcprobe.sass.toolchain import Toolchain, attempt
from tcprobe.system.children import Scratch
from tcprobe.text import one_line

_FUNCTION = re.compile(r"\.text\.(.+):")
_SOURCE = re.compile(r'\s*//## File "(.*)", line (\d{1,9})')
LIMIT = 20.0  # seconds


class SourceLine(NamedTuple):
    """A line of a file."""

    file: str
    line: int


def source_lines(tools: Toolchain, cubin: bytes) -> dict[str, dict[int, SourceLine]]:
    """By function and place of the instruction."""
    try:
        with Scratch() as scratch:
            image = scratch.folder / "code.cubin"
            image.write_bytes(cubin)
            done = attempt(scratch, [tools.nvdisasm, "-c", "-gi", str(image)], min(LIMIT, tools.limit))
    except EnvironmentUnfitError:
        return {}
    return _parsed(done.stdout) if done.returncode == 0 else {}


def _parsed(text: str) -> dict[str, dict[int, SourceLine]]:
    """The last of several lines above an instruction: it is that of the file that was compiled."""
    by_function: dict[str, dict[int, SourceLine]] = {}
    places: dict[int, SourceLine] = {}
    line = None
    for words in text.splitlines():
        if match := _FUNCTION.fullmatch(words):
            places, line = by_function.setdefault(match[1], {}), None
        elif match := _SOURCE.match(words):
            line = SourceLine(one_line(re.sub(r'" inlined at "|", line .*', "", match[1])), int(match[2]))
        elif line and (match := LINE.match(words)):
            places[int(match[1], 16)] = line
    return by_function
