"""The questions about a kernel's main loop: `ablate` measures what each class of its instructions is worth."""

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tcprobe.errors import DataError, UsageError
from tcprobe.question.declare import Option, PlainArgument, command, note
from tcprobe.question.options import Named, NonEmptyText
from tcprobe.question.shared import CudaOption, JsonOption, print_answer
from tcprobe.text import escaped

if TYPE_CHECKING:
    from tcprobe.loops.ablate import Ablation
    from tcprobe.loops.loop import Loop

FILE = Named(path_type=Path, exists=True, dir_okay=False)


def ablate(
    cubin: Annotated[Path, PlainArgument("CUBIN", FILE)],
    *,
    launch: Annotated[
        Path,
        Option("--launch", "How the kernel is launched: Python that defines launch(kernel).", "FILE.py", Named()),
    ],
    kernel: Annotated[
        str | None,
        Option("--kernel", "The function, a pattern with * and ?, of a file with several.", "NAME", NonEmptyText()),
    ] = None,
    loop: Annotated[
        str | None,
        Option("--loop", "The loop around this address. Default: the main loop.", "ADDRESS", NonEmptyText()),
    ] = None,
    cuda: CudaOption = None,
) -> "Ablation":
    """Measure on a GPU what each class of a main loop's instructions is worth: one class at a time is patched away
    (predicated off; it is still issued), and one block runs with its data in L2, so that what bounds the loop is an
    experiment.

    FILE.py is your code: it runs here, with all that you may do. Its launch(kernel) gives (grid, block, shared bytes,
    arguments): arrays of NumPy or CuPy, scalars with types, bytes. What addresses, branches or waits depend on stays. A
    patched kernel that faults or hangs costs its own line.
    \f
    The answer is an `Ablation`. `loop` is an address, such as "0x680".
    """
    from tcprobe.loops.ablate import ablate as measured

    code, found = _loop(cubin, kernel, loop, cuda)
    return measured(code, found, launch)


def _loop(path: Path, named: str | None, address: str | None, cuda: Path | None) -> "tuple[bytes, Loop]":
    """A loop of a file's function, and the cubin that has it."""
    from tcprobe.check.program import programs
    from tcprobe.loops.loop import loop_at, main_loop
    from tcprobe.sass import toolchain
    from tcprobe.sass.code_files import CodeFiles

    if address is not None and not re.fullmatch(r"0x[0-9a-fA-F]{1,8}|[0-9]{1,9}", address):
        raise UsageError(f"`loop` {address[:40]!r}: an address such as 0x680 is needed.")
    tools = toolchain.find(cuda)
    files = CodeFiles(tools, (), not cuda)
    held = [
        (compiled, function)
        for compiled in files.read(path)
        for function in compiled.cubin.functions
        if not named or fnmatchcase(escaped(function.name), named)
    ]
    note(*files.notes, *files.complaints)
    if not held:
        raise UsageError(f"no function is named {named}." if named else f"{path} has no functions.")
    if len(held) > 1:
        names = ", ".join(_names([function.name for _, function in held]))
        raise UsageError(f"{path} has {len(held)} functions; name one by `kernel`: {names}.")
    compiled, function = held[0]
    (made,) = programs(tools, compiled.cubin.arch, [function], str(path))
    if isinstance(made, DataError):
        raise made
    chosen = loop_at(made, int(address, 0)) if address is not None else main_loop(made)
    if chosen is None:
        raise DataError(f"{escaped(function.name)} has no loop.")
    return compiled.raw, chosen


def _names(names: Sequence[str]) -> list[str]:
    shown = [escaped(name[:80]) for name in dict.fromkeys(names)]
    return [*shown[:5], *(["..."] if len(shown) > 5 else [])]


@command(ablate, short="What each class of a main loop's instructions is worth, measured.")
def print_ablation(found: "Ablation", *, as_json: JsonOption = False) -> None:
    """Words or JSON."""
    print_answer(found, as_json)
