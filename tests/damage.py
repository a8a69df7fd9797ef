"""Cubins and disassemblies damaged at random, and what the reader of machine code makes of them.

A damaged one is refused, or read as what it was; what is read as something else must be found out by the run, as any
other change of code (see `mutations`). It is never an exception that is not a refusal, nor does it take long.
"""

import random
import struct
from functools import cached_property
from subprocess import CompletedProcess

from machine_code import TOOLS
from mutations import Run

from tcprobe.errors import EnvironmentUnfitError
from tcprobe.isa.arch import arch
from tcprobe.sass import cubin, disassemble, elf
from tcprobe.sass.toolchain import Assembler
from tcprobe.system.children import Scratch

KERNELS = 12  # in the cubin that is damaged
ODD = (
    "\0",
    "\x1b[2J",
    "\u0663",
    "\ud800",
    ";",
    "/*0000*/",
    "0x" + "f" * 5000,
    "R999",
    "R" * 300,
    "[" * 200,
    "@!P9 ",
    ",,",
)


def damaged_bytes(raw, rng):
    """A cubin with bytes changed, cut, doubled, exchanged or zeroed, or a field of a header set to something else."""
    at, many = rng.randrange(len(raw)), rng.choice((1, 4, 16, 64, 500))
    other = rng.randrange(len(raw))
    table, size, count = struct.unpack_from("<Q10xHH", raw, 40)
    head = rng.choice((rng.randrange(64), table + rng.randrange(size * count)))
    field = rng.choice((b"\0", b"\xff", b"\xff" * 4, b"\xff" * 8, b"\x7f", rng.randbytes(1), rng.randbytes(8)))
    return rng.choice(
        (
            raw[:at] + bytes([raw[at] ^ 1 << rng.randrange(8)]) + raw[at + 1 :],
            raw[:at] + rng.randbytes(many) + raw[at + many :],
            raw[:at],
            raw[:at] + raw[at + many :],
            raw[:at] + raw[other : other + many] + raw[at:],
            raw[:at] + raw[other : other + many] + raw[at + many :],
            raw[:at] + bytes(many) + raw[at + many :],
            raw[:head] + field + raw[head + len(field) :],
            raw[:head] + field + raw[head + len(field) :],
        )
    )


def damaged_text(text, rng):
    """A disassembly with lines or words lost, doubled, exchanged or replaced."""
    lines = text.splitlines(keepends=True)
    at, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    words = lines[at].split(" ")
    place, spot = rng.randrange(len(words)), rng.randrange(len(lines[at]))
    exchanged = [*words[:place], rng.choice(lines[other].split(" ")), *words[place + 1 :]]
    line = rng.choice(
        (
            "",
            lines[at] * 2,
            lines[other],
            "\n",
            " ".join(exchanged),
            " ".join(words[:place] + words[place + 1 :]),
            lines[at][:spot] + rng.choice(ODD) + lines[at][spot:],
            lines[at][:spot] + lines[at][spot + 1 :],
            lines[at][:spot] + rng.choice("0123456789abcdefRUP[]x.-,;!") + lines[at][spot + 1 :],
            lines[at].lower(),
            lines[at].replace(" ", "\t"),
            lines[at].replace(";", ""),
            lines[at][:spot] + "\n",
        )
    )
    if rng.random() < 0.1:
        return "".join(lines[:at])[: rng.randrange(1, len(text))]
    return "".join([*lines[:at], line, *lines[at + 1 :]])


class Reader:
    """The cubin of some loads and stores of an arch, its disassembly, and what they are read as."""

    def __init__(self, name):
        self.row, self.run = arch(name), Run(name)
        names = [kernels[0] for kernels in self.run.distinct]
        self.names = names[:: max(1, len(names) // KERNELS)]
        with Scratch() as scratch:
            self.raw = self._assemble(scratch)

    def _assemble(self, scratch):
        launches = (launch for _, some in self.run.planned.values() for launch in some)
        kernels = {launch.kernel.name: launch.kernel for launch in launches}
        assembler = Assembler(TOOLS, self.row, scratch, scratch.folder / "k.cubin")
        assert assembler.assemble([kernels[name] for name in self.names]) == {}
        return assembler.cubin.read_bytes()

    @cached_property
    def text(self):
        """What nvdisasm prints of the cubin that is whole."""
        said = []

        def listen(*arguments):
            said.append(TOOL(*arguments))
            return said[0]

        self._read(self.raw, listen)
        return said[0].stdout

    @cached_property
    def whole(self):
        return self._read(self.raw, TOOL)

    def _read(self, raw, tool):
        """The code by kernel; EnvironmentUnfitError where it is refused."""
        with Scratch() as scratch:
            path = scratch.folder / "k.cubin"
            path.write_bytes(raw)
            made, found = elf.contents(path)
            if made != self.row.name or not set(self.names) <= set(found):
                raise EnvironmentUnfitError("for another arch, or without a kernel")
            disassemble.attempt, before = tool, disassemble.attempt
            try:
                return cubin.disassemble(TOOLS, self.row, {name: found[name] for name in self.names})
            finally:
                disassemble.attempt = before

    def judged(self, raw, tool):
        """The outcome of a run that reads this, and what is wrong in it."""
        try:
            found = self._read(raw, tool)
        except EnvironmentUnfitError:
            return "refused", []
        changed = {name: code for name, code in found.items() if code != self.whole[name]}
        try:
            return self.run.taken(*self.run.with_code(changed)) if changed else ("unchanged", [])
        finally:
            for code in changed.values():
                self.run.outputs.pop(id(code), None)

    def damaged_cubin(self, rng):
        return self.judged(damaged_bytes(self.raw, rng), TOOL)

    def damaged_disassembly(self, rng):
        text = damaged_text(self.text, rng)
        return self.judged(self.raw, lambda *_: CompletedProcess([], 0, text, ""))


TOOL = disassemble.attempt
KINDS = {"cubins": Reader.damaged_cubin, "disassemblies": Reader.damaged_disassembly}


def tried(reader, kind, seed):
    """The outcome of one damage: a word, and what is wrong; any exception but a refusal is a crash."""
    try:
        return KINDS[kind](reader, random.Random(seed))
    except Exception as error:
        return "crashed", [f"{type(error).__name__}: {error}"[:200]]
