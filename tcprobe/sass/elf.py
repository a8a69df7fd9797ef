"""Contents of a cubin: arch, raw code of every kernel, and where its parameters are (EIATTR_PARAM_CBANK).

If the compiler cannot express something by instructions, it links its own routines; they follow the kernel's code, in
its section.

The format was found by comparing what ptxas 12.0 to 13.5 write for every arch that they know.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import Section

from tcprobe.errors import EnvironmentUnfitError

PARAM_CBANK = 0x0A  # attribute of .nv.info.<kernel>: offset and size of the parameters in constant bank 0
HAS_SIZE = 0x04  # format of an attribute that is followed by its value; others hold it themselves
# first of the eight bits of the compute capability in the ELF header's flags, by ABI version; ptxas 13 writes version
# 8, as do 12.7 and later for Blackwell
ARCH_SHIFT = {7: 0, 8: 8}
SYMBOL_BYTES, FUNCTION = struct.Struct("<IBBHQQ"), 2  # a symbol: name, info, other, section, value, size; STT_FUNC
_ROUTINE = re.compile(rb"\$__internal_\d+_\$(\w{1,200})\0")  # as ptxas names them, numbered within a module
SYMBOL = 0xFFFFFF  # bits of a code section's sh_info with the number of its kernel's symbol

# what the parser raises for a damaged file
DAMAGED = (ELFError, KeyError, IndexError, TypeError, ValueError, OverflowError, AttributeError, struct.error)


class Content(NamedTuple):
    """A kernel's raw code, offset and size of its parameters in constant bank 0, and the routines linked into it."""

    raw: bytes
    offset: int
    size: int
    routines: tuple[str, ...] = ()


def contents(cubin: Path) -> tuple[str, dict[str, Content]]:
    """(arch as "sm_90", content by kernel); EnvironmentUnfitError if the cubin is unreadable or contradicts itself."""
    try:
        raw = cubin.read_bytes()
        elf = ELFFile(BytesIO(raw))
        sections = {section.name: (number, section) for number, section in enumerate(elf.iter_sections())}
        kernels = [name.removeprefix(".text.") for name in sections if name.startswith(".text.")]
        routines = _routines(raw, sections) if kernels else {}
        return _arch(elf), {name: _content(raw, sections, name, routines) for name in kernels}
    except (*DAMAGED, OSError) as error:
        raise EnvironmentUnfitError(f"ptxas wrote no cubin that can be read: {error}.") from None


def code_by_kernel(cubin: bytes) -> dict[str, bytes]:
    """The raw code of every kernel, by any compiler; EnvironmentUnfitError if the cubin is unreadable."""
    try:
        sections = {section.name: section for section in ELFFile(BytesIO(cubin)).iter_sections()}
        return {
            name.removeprefix(".text."): _data(cubin, section)
            for name, section in sections.items()
            if name.startswith(".text.")
        }
    except DAMAGED as error:
        raise EnvironmentUnfitError(f"the compiler made no cubin that can be read: {error}.") from None


def replace_code(cubin: bytes, changed: Mapping[str, Callable[[bytes], bytes]]) -> bytes:
    """A cubin whose kernels have the code that a function by kernel makes of theirs, of the same length."""
    sections = {section.name: section for section in ELFFile(BytesIO(cubin)).iter_sections()}
    for name, change in changed.items():
        section = sections[f".text.{name}"]
        start, raw = section["sh_offset"], _data(cubin, section)
        cubin = cubin[:start] + change(raw) + cubin[start + len(raw) :]
    return cubin


def _arch(elf: ELFFile) -> str:
    version, machine = elf.header["e_ident"]["EI_ABIVERSION"], elf.header["e_machine"]
    if machine != "EM_CUDA" or version not in ARCH_SHIFT:
        raise EnvironmentUnfitError(f"ptxas wrote an ELF file for {machine}, ABI version {version}: no known cubin.")
    return f"sm_{elf.header['e_flags'] >> ARCH_SHIFT[version] & 0xFF}"


def _routines(raw: bytes, sections: dict[str, tuple[int, Section]]) -> dict[int, tuple[str, ...]]:
    """The compiler's routines by number of section, in the order of their addresses."""
    symbols = sections[".symtab"][1]
    names = _data(raw, symbols.stringtable)
    by_section: dict[int, list[tuple[int, str]]] = {}
    for name, info, _, section, value, _ in SYMBOL_BYTES.iter_unpack(_data(raw, symbols)):
        match = _ROUTINE.match(names, name) if info & 15 == FUNCTION else None
        if match:
            by_section.setdefault(section, []).append((value, match[1].decode()))
    return {section: tuple(name for _, name in sorted(routines)) for section, routines in by_section.items()}


def _content(
    raw: bytes, sections: dict[str, tuple[int, Section]], name: str, routines: dict[int, tuple[str, ...]]
) -> Content:
    """A kernel's content; EnvironmentUnfitError unless the names of its sections and its symbol agree."""
    (number, code), (_, info), (_, symbols) = (sections[s] for s in (f".text.{name}", f".nv.info.{name}", ".symtab"))
    symbol = symbols.get_symbol(code["sh_info"] & SYMBOL)
    if (symbol.name, symbol["st_shndx"], info["sh_info"]) != (name, number, number):
        raise EnvironmentUnfitError(f"ptxas wrote a cubin whose code section {name} belongs to symbol {symbol.name}.")
    return Content(_data(raw, code), *_parameters(_data(raw, info)), routines.get(number, ()))


def _data(raw: bytes, section: Section) -> bytes:
    """The bytes of a section; read here because the parser would allocate any size that a header states."""
    start, size = section["sh_offset"], section["sh_size"]
    if start + size > len(raw):
        raise ValueError(f"section {section.name} ends outside the file")
    return raw[start : start + size]


def _parameters(info: bytes) -> tuple[int, int]:
    """(offset, size) of the parameters in constant bank 0, from the attributes in .nv.info.<kernel>."""
    place = 0
    while place < len(info):
        kind, attribute, value = struct.unpack_from("<BBH", info, place)
        place += 4
        if kind == HAS_SIZE:
            if attribute == PARAM_CBANK:
                _, offset, size = struct.unpack_from("<IHH", info, place)
                return offset, size
            place += value
    raise KeyError("EIATTR_PARAM_CBANK")
