"""Fatbins made by hand, PTX of a multiply, and what ptxas makes of it: files for `tcprobe read`."""

import subprocess

from machine_code import TOOLS

from tcprobe.isa import inventory
from tcprobe.isa.arch import arch
from tcprobe.probes.ptx import module
from tcprobe.sass.image import ENTRY, HEADER
from tcprobe.sass.lowering import probe

MULTIPLY = "mma.m16n8k16.row.col.f32.f16.f16.f32"
FP8 = "mma.m16n8k32.row.col.f32.e4m3.e4m3.f32"


def ptx(*names, on="sm_80"):
    """PTX with a kernel of each instruction."""
    rows = [inventory.instructions()[name] for name in names or (MULTIPLY,)]
    return module([probe(row) for row in rows], arch(on))


def cubin(folder, *names, on="sm_80", options=()):
    """What ptxas makes of it, as a file."""
    source, made = folder / f"{on}.ptx", folder / f"{on}.cubin"
    source.write_text(ptx(*names, on=on))
    subprocess.run([TOOLS.ptxas, *options, "-arch", on, str(source), "-o", str(made)], check=True)
    return made


def entry(data, kind=2, flags=0x11, full=0, header=64, arch=80):
    """An entry of a fatbin, of an arch's number."""
    padded = data + bytes(-len(data) % 8)
    packed = len(data) if full else 0
    head = ENTRY.pack(kind, 0x101, header, len(padded), packed, 0, 0x10008, arch, 0, flags, 0, full)
    return head + bytes(header - len(head)) + padded


def fatbin(*entries):
    """A fatbin of entries."""
    body = b"".join(entries)
    return HEADER.pack(0xBA55ED50, 1, 16, len(body)) + body


def packed_lz4(data):
    """An LZ4 block: where four bytes were seen before they are copied, all else is literal."""
    seen, block, literals, place = {}, bytearray(), bytearray(), 0
    while place < len(data):
        key = data[place : place + 4]
        back = place - seen.get(key, place)
        seen[key] = place
        if not 4 <= back <= 0xFFFF or place + 12 > len(data):
            literals.append(data[place])
            place += 1
            continue
        count = 4
        while place + count < len(data) - 5 and data[place + count] == data[place + count - back]:
            count += 1
        block += bytes([min(15, len(literals)) << 4 | min(15, count - 4)]) + _more(len(literals)) + literals
        block += back.to_bytes(2, "little") + _more(count - 4)
        literals.clear()
        place += count
    return bytes(block + bytes([min(15, len(literals)) << 4]) + _more(len(literals)) + literals)


def _more(count):
    """What follows a length of 15 or more."""
    return b"" if count < 15 else b"\xff" * ((count - 15) // 255) + bytes([(count - 15) % 255])
