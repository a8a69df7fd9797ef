"""The source lines of machine code, from a cubin's line table.

.debug_line is DWARF 2's, with two opcodes of NVIDIA's own: a row may be of inlined code, and then names the row of the
call. The line of an instruction is that of the outermost call: in the file that was compiled. nvdisasm prints the same,
but for inlined code whose call changes and whose own line does not, where it prints nothing.

A table that is damaged, of another version, or larger than MOST_BYTES gives no lines.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from tcprobe.errors import DataError
from tcprobe.sass.elf import SYMBOL, SYMTAB, Section, sections
from tcprobe.text import one_line

MOST_BYTES = 8 << 20  # of a table; rows of it take up to a dozen times as much while it is read
MOST_BITS = 64  # of a number
MOST_CALLS = 100  # of inlined functions in each other
TEXT = ".text."
# standard opcodes, and extended ones behind a 0 and their size
COPY, ADVANCE_PC, ADVANCE_LINE, SET_FILE, CONST_ADD_PC, FIXED_ADVANCE_PC = 1, 2, 3, 4, 8, 9
END_SEQUENCE, SET_ADDRESS, INLINED_CALL = 1, 2, 0x90


class SourceLine(NamedTuple):
    """A line of a file."""

    file: str
    line: int


class FunctionLines:
    """Where lines begin in a function, by address; each holds up to the next."""

    def __init__(self) -> None:
        self._lines: dict[int, SourceLine] = {}
        self._sorted: list[int] = []

    def add(self, address: int, line: SourceLine) -> None:
        """The code from an address on is of this line; of several at one address the last counts."""
        self._lines[address] = line
        self._sorted = []

    def at(self, address: int) -> SourceLine | None:
        """The line of the instruction there."""
        self._sorted = self._sorted or sorted(self._lines)
        place = bisect_right(self._sorted, address)
        return self._lines[self._sorted[place - 1]] if place else None


def source_lines(cubin: bytes) -> dict[str, FunctionLines]:
    """By function the lines of its instructions."""
    found: dict[str, FunctionLines] = {}
    try:
        every = list(sections(cubin))
        table = next((section.data for section in every if section.name == ".debug_line"), b"")
        if len(table) <= MOST_BYTES:
            begins = _begins(every)
            for unit in _units(table):
                for function, address, line in unit.lines(begins):
                    found.setdefault(function, FunctionLines()).add(address, line)
    except (struct.error, IndexError, ValueError, OverflowError, DataError):
        return {}
    return found


def _begins(every: list[Section]) -> dict[int, tuple[str, int]]:
    """By place in the table, the (function, address) that a linker writes there."""
    symbols = next((section.data for section in every if section.type == SYMTAB), b"")
    found = {}
    for section in every:
        if section.name in (".rel.debug_line", ".rela.debug_line"):
            entry = struct.Struct("<QQq" if section.name.startswith(".rela") else "<QQ")
            for place, info, *addend in entry.iter_unpack(section.data[: len(section.data) // entry.size * entry.size]):
                _, _, _, number, value, _ = SYMBOL.unpack_from(symbols, (info >> 32) * SYMBOL.size)
                found[place] = every[number].name.removeprefix(TEXT), value + sum(addend)
    return found


class _Reader:
    """Numbers from bytes, one after another."""

    def __init__(self, data: bytes, place: int) -> None:
        self.data, self.place = data, place

    def unsigned(self) -> int:
        """An unsigned LEB128 number."""
        number = shift = 0
        while True:
            byte = self.data[self.place]
            self.place += 1
            number |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return number
            if shift > MOST_BITS:
                raise ValueError(f"a number of more than {MOST_BITS} bits")

    def signed(self) -> int:
        """A signed LEB128 number."""
        begin = self.place
        number, bits = self.unsigned(), 7 * (self.place - begin)
        return number - (number >> bits - 1 << bits)

    def text(self) -> str:
        """A zero-terminated text."""
        end = self.data.index(0, self.place)
        text = self.data[self.place : end].decode(errors="backslashreplace")
        self.place = end + 1
        return text


class _Unit(NamedTuple):
    """The program of a compilation unit: from which byte to which, and what its header says."""

    table: bytes
    begin: int
    end: int
    step: int  # bytes of an instruction
    line_base: int
    line_range: int
    opcode_base: int
    operands: bytes  # how many each standard opcode has
    files: tuple[str, ...]

    def lines(self, begins: dict[int, tuple[str, int]]) -> Iterator[tuple[str, int, SourceLine]]:
        """Function, address and line of each row."""
        reader = _Reader(self.table, self.begin)
        while reader.place < self.end:
            yield from self._sequence(_Row(self, reader, begins))

    def _sequence(self, row: _Row) -> Iterator[tuple[str, int, SourceLine]]:
        """The rows up to the end of a sequence; calls are numbered in it."""
        file, number, call = array("I"), array("I"), array("I")
        places: dict[tuple[str, int], int] = {}  # the last row of each address
        while row.next():
            file.append(row.file)
            number.append(row.line)
            call.append(row.call)
            if row.function:
                places[row.function, row.address] = len(file) - 1
        for (function, address), at in places.items():
            outermost = at
            for _ in range(MOST_CALLS):
                if not 0 < call[outermost] <= len(file):
                    break
                outermost = call[outermost] - 1
            if 0 < file[outermost] <= len(self.files):
                yield function, address, SourceLine(self.files[file[outermost] - 1], number[outermost])


class _Row:
    """The present row of a sequence; `call`: the row of the call that it is inlined at, from 1, or 0."""

    def __init__(self, unit: _Unit, reader: _Reader, begins: dict[int, tuple[str, int]]) -> None:
        self._unit, self._reader, self._begins = unit, reader, begins
        self.function, self.address, self.file, self.line, self.call = "", 0, 1, 1, 0

    def next(self) -> bool:
        """Go on to the next row; False at the end of the sequence."""
        unit, reader = self._unit, self._reader
        while reader.place < unit.end:
            opcode = unit.table[reader.place]
            reader.place += 1
            if opcode >= unit.opcode_base:
                self.address += (opcode - unit.opcode_base) // unit.line_range * unit.step
                self.line += unit.line_base + (opcode - unit.opcode_base) % unit.line_range
                return True
            if opcode == COPY:
                return True
            if opcode:
                self._change(opcode)
            elif self._extended() == END_SEQUENCE:
                return False
        return False

    def _change(self, opcode: int) -> None:
        """A standard opcode that makes no row."""
        unit, reader = self._unit, self._reader
        if opcode == ADVANCE_PC:
            self.address += reader.unsigned() * unit.step
        elif opcode == ADVANCE_LINE:
            self.line += reader.signed()
        elif opcode == SET_FILE:
            self.file = reader.unsigned()
        elif opcode == CONST_ADD_PC:
            self.address += (255 - unit.opcode_base) // unit.line_range * unit.step
        elif opcode == FIXED_ADVANCE_PC:
            self.address += int.from_bytes(unit.table[reader.place : reader.place + 2], "little")
            reader.place += 2
        else:
            for _ in range(unit.operands[opcode - 1]):
                reader.unsigned()

    def _extended(self) -> int:
        """An extended opcode, which is given back."""
        reader = self._reader
        end = reader.unsigned() + reader.place
        opcode = self._unit.table[reader.place]
        reader.place += 1
        if opcode == SET_ADDRESS:
            self.function, self.address = self._begins.get(reader.place, ("", 0))
        elif opcode == INLINED_CALL:
            self.call = reader.unsigned()
        reader.place = end
        return opcode


def _units(table: bytes) -> Iterator[_Unit]:
    """The units of a table of DWARF 2 to 4."""
    place = 0
    while place + 4 <= len(table):
        size, version, header, step = struct.unpack_from("<IHIB", table, place)
        end, begin = place + 4 + size, place + 10 + header
        if not 2 <= version <= 4 or end > len(table):
            return
        reader = _Reader(
            table, place + (11 if version < 4 else 12)
        )  # DWARF 4 has operations of a wide instruction, too
        _, line_base, line_range, opcode_base = struct.unpack_from("<BbBB", table, reader.place)
        operands = table[reader.place + 4 : reader.place + 3 + opcode_base]
        reader.place += 3 + opcode_base
        files = tuple(_files(reader))
        yield _Unit(table, begin, end, step, line_base, max(line_range, 1), opcode_base, operands, files)
        place = end


def _files(reader: _Reader) -> Iterator[str]:
    """The files of a unit with their folders."""
    folders = list(iter(reader.text, ""))
    for name in iter(reader.text, ""):
        folder, _, _ = reader.unsigned(), reader.unsigned(), reader.unsigned()
        yield one_line(f"{folders[folder - 1]}/{name}" if folder and not name.startswith("/") else name)
