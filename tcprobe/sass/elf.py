"""What a cubin holds: the raw code of every kernel, and where its parameters are (EIATTR_PARAM_CBANK in .nv.info)."""

from __future__ import annotations

import struct
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile

from tcprobe.errors import EnvironmentUnfitError

PARAM_CBANK = 0x0A  # attribute of .nv.info.<kernel>: offset and size of the parameters in constant bank 0
HAS_SIZE = 0x04  # format of an attribute that is followed by its value; others hold it in place


def contents(cubin: Path) -> dict[str, tuple[bytes, int, int]]:
    """(raw code, offset and size of the parameters in constant bank 0) by kernel; EnvironmentUnfitError if unread."""
    try:
        with cubin.open("rb") as file:
            sections = {s.name: s.data() for s in ELFFile(file).iter_sections()}
        codes = {name.removeprefix(".text."): raw for name, raw in sections.items() if name.startswith(".text.")}
        return {name: (raw, *_parameters(sections[f".nv.info.{name}"])) for name, raw in codes.items()}
    except (ELFError, KeyError, struct.error, OSError) as error:
        raise EnvironmentUnfitError(f"ptxas wrote no cubin that can be read: {error}.") from None


def _parameters(info: bytes) -> tuple[int, int]:
    """(offset, size) of the parameters in constant bank 0, from the attributes of .nv.info.<kernel>."""
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
