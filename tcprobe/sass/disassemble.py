"""Functions of files, disassembled: a batch of them goes through one `nvdisasm --binary`.

That takes less time than a run for each cubin, and also prints code of archs whose cubins nvdisasm refuses; the text
of an instruction is decoded once, wherever it stands.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from tcprobe.errors import DataError, EnvironmentUnfitError
from tcprobe.sass.decode import LINE, decode
from tcprobe.sass.elf import FunctionCode
from tcprobe.sass.kernel import BYTES, Instruction, Kernel
from tcprobe.sass.toolchain import Toolchain, attempt
from tcprobe.system.children import Scratch, exit_code, one_line

AT_ONCE = 1 << 20  # bytes of code in a batch: 65,536 instructions, about 40 MB while they are looked at
# what nvdisasm prints the address of, in the whole batch
_RELATIVE = re.compile(r"((?:@!?U?P[0-9T] )?\s*(?:BRA|BSSY|CALL\.REL|RET\.REL|WARPSYNC|LEPC)\b.*?)(-?0x[0-9a-f]+)$")
_REFUSED = re.compile(r"at address 0x([0-9a-f]{1,16})")
UNREAD = decode("UNREAD")


def batches(functions: Iterable[tuple[str, FunctionCode]]) -> Iterator[list[tuple[str, FunctionCode]]]:
    """(key, function) in lists of one key and about AT_ONCE bytes of code."""
    part: list[tuple[str, FunctionCode]] = []
    size = 0
    for key, function in functions:
        if part and (part[0][0] != key or size + len(function.code) > AT_ONCE):
            yield part
            part, size = [], 0
        part.append((key, function))
        size += len(function.code)
    if part:
        yield part


def programs(
    tools: Toolchain, arch: str, functions: Sequence[FunctionCode], file: str = ""
) -> Iterator[Kernel | DataError]:
    """The functions of an arch (as "sm_90") as graphs, all of them disassembled at once; what cannot be is an error."""
    texts = _listing(tools, arch, [function.code for function in functions])
    for function, text in zip(functions, texts, strict=True):
        if isinstance(text, DataError):
            yield text
        else:
            instructions = _instructions(text, len(function.code) // BYTES)
            yield Kernel(file, arch, function, instructions, text.count(None))


def _listing(tools: Toolchain, arch: str, codes: Sequence[bytes]) -> list[list[str | None] | DataError]:
    """The text of each instruction of each code; None where nvdisasm prints none.

    If it does not take the whole, each half; a code that it does not take alone is an error.
    """
    if not codes:
        return []
    lines, words, _ = printed(tools, arch, b"".join(codes))
    if not words:
        texts, start = list[list[str | None] | DataError](), 0
        for code in codes:
            places = range(start, start + len(code), BYTES)
            texts.append([_moved(lines.get(place), start) for place in places])
            start += len(code)
        return texts
    if len(codes) == 1:
        return [DataError(f"nvdisasm does not take its code: {words}.")]
    half = len(codes) // 2
    return _listing(tools, arch, codes[:half]) + _listing(tools, arch, codes[half:])


def _moved(text: str | None, start: int) -> str | None:
    """The text of an instruction with the address in its function, of a branch that names one in the batch."""
    match = _RELATIVE.match(text) if text and start else None
    return f"{match[1]}{int(match[2], 16) - start:#x}" if match else text


class Printed(NamedTuple):
    """What nvdisasm prints of raw code: `lines`, the text of instructions by address. Where it complains, its `words`
    and the addresses that it `refused` by name.
    """

    lines: dict[int, str]
    words: str = ""
    refused: frozenset[int] = frozenset()


def printed(tools: Toolchain, arch: str, raw: bytes) -> Printed:
    """Run nvdisasm once on raw code of an arch, as "sm_90"; EnvironmentUnfitError if it knows no such arch.

    Volta is encoded as Turing, which is all that nvdisasm 13 knows.
    """
    number = max(75, int(arch.removeprefix("sm_")))
    with Scratch() as scratch:
        image = scratch.folder / "code.bin"
        image.write_bytes(raw)
        completed = attempt(scratch, [tools.nvdisasm, "--binary", f"SM{number}", str(image)], tools.limit)
    code = exit_code(completed.returncode)
    if "is not defined for option" in completed.stderr:
        raise EnvironmentUnfitError(f"{tools.nvdisasm} ({tools.nvdisasm_version}) knows no SM{number}.")
    found = [(int(place, 16), text) for place, text in LINE.findall(completed.stdout)]
    lines = dict(found)
    if not code and [place for place, _ in found] == sorted(lines):
        return Printed(lines)
    words = one_line(completed.stderr.replace(str(image), "code"))
    words = words or (f"it ended with {code}" if code else "it prints addresses out of order")
    return Printed(lines, words, frozenset(int(place, 16) for place in _REFUSED.findall(completed.stderr)))


def _instructions(texts: Sequence[str | None], count: int) -> list[Instruction]:
    forms = [decode(text) if text else UNREAD for text in texts[:count]]
    return [Instruction(number, form, form.mnemonic) for number, form in enumerate(forms)]
