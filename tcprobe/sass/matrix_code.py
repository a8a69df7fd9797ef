"""Finds the matrix instructions in large amounts of code without disassembling all of it.

The low 12 bits and bits 72 to 104 of an instruction determine its opcode; operands and scheduling are elsewhere. So of
each such pattern one instruction is disassembled, and then all those whose pattern is a matrix instruction. Strangers'
code may have words that nvdisasm does not take; they are left out, and counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tcprobe.isa.opcodes import multiplies, of_kind
from tcprobe.layout.arrays import Bools, Ints
from tcprobe.sass.decode import opcode_of
from tcprobe.sass.disassemble import printed
from tcprobe.sass.frame import LOCAL
from tcprobe.sass.toolchain import Toolchain

WideWords = NDArray[np.uint64]
CHUNK = 1 << 17  # instructions disassembled in one call
AT_ONCE = 16 << 20  # bytes of code; they need about ten times as much memory
MOST_CALLS = 200  # runs of nvdisasm for the code of an arch; most of them isolate what it does not take


@dataclass(frozen=True)
class MatrixPlaces:
    """By place in a function, the opcodes of matrix instructions and of local memory; `unread` counts bad words."""

    opcodes: dict[int, str]
    unread: int = 0


def find(tools: Toolchain, arch: str, pieces: Sequence[bytes]) -> list[MatrixPlaces]:
    """What each piece of code of an arch (as "sm_90") has; about AT_ONCE bytes are searched at a time."""
    reader, matrix_places, part, size = _Disassembler(tools, arch), list[MatrixPlaces](), list[bytes](), 0
    for piece in pieces:
        part.append(piece)
        size += len(piece)
        if size >= AT_ONCE:
            matrix_places += _find(reader, part)
            part, size = [], 0
    return matrix_places + (_find(reader, part) if part else [])


def _find(reader: _Disassembler, pieces: Sequence[bytes]) -> list[MatrixPlaces]:
    code = np.frombuffer(b"".join(pieces), np.uint64).reshape(-1, 2)
    places = np.flatnonzero(_may_be_matrix_code(reader, code))
    distinct, number = np.unique(code[places], axis=0, return_inverse=True)
    names = reader.opcodes(distinct)
    ends = np.cumsum([len(piece) // 16 for piece in pieces])
    starts = np.concatenate([[0], ends[:-1]])
    bounds = np.searchsorted(places, [starts, ends])
    number = number.reshape(-1)
    return [
        _matrix_places(places[low:high] - start, [names[n] for n in number[low:high]])
        for start, low, high in zip(starts, *bounds, strict=True)
    ]


def _matrix_places(places: Ints, names: Sequence[str | None]) -> MatrixPlaces:
    by_place = {16 * int(place): name for place, name in zip(places, names, strict=True) if name}
    return MatrixPlaces(
        {place: o for place, o in by_place.items() if is_matrix(o) or mnemonic(o) in LOCAL}, names.count(None)
    )


def mnemonic(opcode: str) -> str:
    """The opcode without modifiers: HMMA of HMMA.16816.F32."""
    return opcode.partition(".")[0]


def is_matrix(opcode: str) -> bool:
    """Whether an opcode multiplies or moves matrices."""
    return multiplies(opcode) or mnemonic(opcode) in of_kind("matrix move")


def _may_be_matrix_code(reader: _Disassembler, code_words: WideWords) -> Bools:
    """Which instructions may be matrix instructions or local memory's, or are not code that nvdisasm takes."""
    pattern = code_words[:, 0] & np.uint64(0xFFF) | (
        code_words[:, 1] >> np.uint64(8) & np.uint64((1 << 33) - 1)
    ) << np.uint64(12)
    _, first, number = np.unique(pattern, return_index=True, return_inverse=True)
    names = reader.opcodes(code_words[first] & ~_GUARD | _ALWAYS)
    of_interest = np.array([name is None or is_matrix(name) or mnemonic(name) in LOCAL for name in names], bool)
    return np.asarray(of_interest[number.reshape(-1)] if len(of_interest) else np.zeros(0, bool))


_GUARD, _ALWAYS = np.array([0xF000, 0], np.uint64), np.array([0x7000, 0], np.uint64)  # bits of the guard, and @PT


class _Disassembler:
    """nvdisasm for the code of one arch; it runs at most MOST_CALLS times."""

    def __init__(self, tools: Toolchain, arch: str) -> None:
        self._tools, self._arch, self._calls = tools, arch, 0

    def opcodes(self, code_words: WideWords) -> list[str | None]:
        """The opcode of every instruction; None if it is not one."""
        names: list[str | None] = []
        for start in range(0, len(code_words), CHUNK):
            names += self._some(code_words[start : start + CHUNK])
        return names

    def _some(self, code_words: WideWords) -> list[str | None]:
        """Opcodes of code that nvdisasm may refuse: without the words that it names, or else by halves."""
        if not len(code_words) or self._calls >= MOST_CALLS:
            return [None] * len(code_words)
        opcodes, refused = self._call(code_words)
        if opcodes is not None:
            return list(opcodes)
        if refused:
            accepted = [j for j in range(len(code_words)) if j not in refused]
            names = dict(zip(accepted, self._some(code_words[accepted]), strict=True))
            return [names.get(j) for j in range(len(code_words))]
        half = len(code_words) // 2
        return self._some(code_words[:half]) + self._some(code_words[half:]) if half else [None]

    def _call(self, code_words: WideWords) -> tuple[list[str] | None, set[int]]:
        """(all opcodes, empty set), or (None, numbers of the instructions that nvdisasm refuses by name)."""
        self._calls += 1
        texts, _, refused = printed(self._tools, self._arch, code_words.tobytes())
        if list(texts) == list(range(0, 16 * len(code_words), 16)) and not refused:
            return [opcode_of(text) for text in texts.values()], set()
        return None, {place // 16 for place in refused if place // 16 < len(code_words)}
