"""Source lines of instructions, for a cubin with line information; for inlined code, the line in the outermost file.

nvdisasm reads the tables. If it refuses a cubin, or does not answer in time, there are no lines.
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
    """Source lines by function and address of the instruction."""
    try:
        with Scratch() as scratch:
            image = scratch.folder / "code.cubin"
            image.write_bytes(cubin)
            completed = attempt(scratch, [tools.nvdisasm, "-c", "-gi", str(image)], min(LIMIT, tools.limit))
    except EnvironmentUnfitError:
        return {}
    return _parse(completed.stdout) if completed.returncode == 0 else {}


def _parse(text: str) -> dict[str, dict[int, SourceLine]]:
    """Of several lines above an instruction, the last is that of the compiled file."""
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
