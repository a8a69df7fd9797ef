"""The questions about a kernel's main loop: `predict` from machine code, `ablate` by experiment."""

import re
from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tcprobe.errors import DataError, UsageError
from tcprobe.question.declare import Option, PlainArgument, command, note
from tcprobe.question.options import Named, NonEmptyText, Number, Output
from tcprobe.question.shared import CudaOption, JsonOption, OnlyOption, ResultsOption, print_answer
from tcprobe.system import files
from tcprobe.text import escaped

if TYPE_CHECKING:
    from tcprobe.loops.ablate import Ablation
    from tcprobe.loops.loop import Loop
    from tcprobe.loops.measure import Measured
    from tcprobe.loops.predict import Prediction
    from tcprobe.sass.kernel import Kernel

FILE = Named(path_type=Path, exists=True, dir_okay=False)
LAUNCH = Option("--launch", "How the kernel is launched: Python that defines launch(kernel).", "FILE.py", Named())
KernelOption = Annotated[
    str | None,
    Option("--kernel", "The function, a pattern with * and ?, of a file with several.", "NAME", NonEmptyText()),
]
LoopOption = Annotated[
    str | None,
    Option("--loop", "The loop around this address. Default: the main loop.", "ADDRESS", NonEmptyText()),
]


def ablate(
    cubin: Annotated[Path, PlainArgument("CUBIN", FILE)],
    *,
    launch: Annotated[
        Path,
        LAUNCH,
    ],
    kernel: KernelOption = None,
    loop: LoopOption = None,
    cuda: CudaOption = None,
) -> "Ablation":
    """Measure on a GPU what each class of a main loop's instructions is worth: one class at a time is patched away
    (what is left of it is an issue slot each), and one block runs with its data in L2, so that what bounds the loop is
    an experiment.

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
    from tcprobe.loops.loop import loop_at, main_loop

    place = _address("loop", address)
    functions = _kernels(path, named, cuda)
    _require_one(path, functions)
    raw, made = functions[0]
    if isinstance(made, DataError):
        raise made
    chosen = loop_at(made, place) if place is not None else main_loop(made)
    if chosen is None:
        raise DataError(f"{escaped(made.name)} has no loop.")
    return raw, chosen


def _address(name: str, text: str | None) -> int | None:
    if text is not None and not re.fullmatch(r"0x[0-9a-fA-F]{1,8}|[0-9]{1,9}", text):
        raise UsageError(f"`{name}` {text[:40]!r}: an address such as 0x680 is needed.")
    return None if text is None else int(text, 0)


def _kernels(path: Path, named: str | None, cuda: Path | None) -> "list[tuple[bytes, Kernel | DataError]]":
    """The functions of a file, each with the cubin that has it; an error where its code is not printed."""
    from tcprobe.sass import toolchain
    from tcprobe.sass.code_files import CodeFiles
    from tcprobe.sass.disassemble import programs

    tools = toolchain.find(cuda)
    code = CodeFiles(tools, (), not cuda)
    found: list[tuple[bytes, Kernel | DataError]] = []
    for compiled in code.read(path):
        functions = [each for each in compiled.cubin.functions if not named or fnmatchcase(escaped(each.name), named)]
        made = programs(tools, compiled.cubin.arch, functions, str(path))
        found += [(compiled.raw, each) for each in made]
    note(*code.notes, *code.complaints)
    if not found:
        raise UsageError(f"no function is named {named}." if named else f"{path} has no functions.")
    return found


def _require_one(path: Path, functions: "Sequence[tuple[bytes, Kernel | DataError]]") -> None:
    """UsageError where a launch file could launch several functions."""
    if len(functions) > 1:
        names = ", ".join(_names([made.name for _, made in functions if not isinstance(made, DataError)]))
        raise UsageError(f"{path} has {len(functions)} functions; name one by `kernel`: {names}.")


def _names(names: Sequence[str]) -> list[str]:
    shown = [escaped(name[:80]) for name in dict.fromkeys(names)]
    return [*shown[:5], *(["..."] if len(shown) > 5 else [])]


@command(
    ablate,
    short="What each class of a main loop's instructions is worth, measured.",
    json="tcprobe.loops.ablate:AblationAnswer",
)
def print_ablation(found: "Ablation", *, as_json: JsonOption = False) -> None:
    """Words or JSON."""
    print_answer(found, as_json)


def predictions(
    cubin: Annotated[Path, PlainArgument("CUBIN", FILE, among="")],
    *,
    kernel: KernelOption = None,
    loop: LoopOption = None,
    taken: Annotated[
        Sequence[str],
        Option(
            "--taken",
            "The branch at this address is taken, where code leaves that open; can be given several times.",
            "ADDRESS",
            NonEmptyText(),
            True,
        ),
    ] = (),
    warps: Annotated[
        int | None,
        Option("--warps", "Warps of a block. Default: as the file states them, else 8.", "N", Number(1, 32)),
    ] = None,
    measure: Annotated[
        bool, Option("--measure", "Beside it the clock of this machine's GPU: one block alone, and the grid.")
    ] = False,
    launch: Annotated[Path | None, LAUNCH] = None,
    cuda: CudaOption = None,
    results: ResultsOption = None,
    only: OnlyOption = False,
) -> "list[Prediction]":
    """Predict from machine code what a round of a kernel's main loop takes: cycles for one block on an SM, with its
    data in L2, and how busy each pipe is.

    A model of an SM follows stall counts and barriers of the code, prices of opcodes, ports of registers, the queue
    to shared memory and wavefronts by the addresses that the code computes. The answer is a range over orders of
    issue. A main loop is an innermost loop that multiplies on tensor cores, else the longest innermost one. Branches
    are followed where the code decides them; what is assumed is said. Refused by name: an opcode without a price, a
    loop that is not followed, warps that wait for those of another loop, archs without prices; the exit code is 1 then.
    --measure needs a GPU and --launch, a file of your code as `ablate` takes it.
    \f
    The answer is a list of `Prediction`, one a loop. `loop` and `taken` are addresses, such as "0x680".
    """
    from tcprobe.loops.loop import loop_at, main_loops
    from tcprobe.loops.predict import predict
    from tcprobe.store.choose import layers

    place, branches = _address("loop", loop), [_address("taken", each) or 0 for each in taken]
    known = layers(results, only)
    if measure and launch is None:
        raise UsageError("`measure` needs `launch`: a file that says how the kernel is launched.")
    if launch and not measure:
        raise UsageError("`launch` is for `measure`.")
    functions = _kernels(cubin, kernel, cuda)
    found: list[Prediction] = []
    refused: DataError | None = None
    if launch:
        _require_one(cubin, functions)
    for raw, made in functions:
        if isinstance(made, DataError):
            refused = made
            continue
        loops = main_loops(made, branches) if place is None else (loop_at(made, place, branches),)
        if not loops:
            note(f"{escaped(made.name)} has no loop.")
        for each in loops:
            timed = _measured(raw, each, launch) if launch else None
            of = warps or (timed.warps if timed else None)
            found.append(replace(predict(each, of, known), measured=timed))
    if refused and not found:
        raise refused
    note(str(refused) if refused else None)
    return found


def _measured(raw: bytes, loop: "Loop", launch: Path) -> "Measured | None":
    """The clock beside a loop; None, with a note, of one that the launch does not come to, or not known how often."""
    from tcprobe.loops.loop import LoopError
    from tcprobe.loops.measure import measure as measured

    try:
        return measured(raw, loop, launch)
    except LoopError as error:
        note(f"not measured: {error}")
        return None


@command(
    predictions,
    short="Cycles of a kernel's main loop, from its machine code.",
    name="predict",
    json="tcprobe.loops.predict:PredictionAnswer",
)
def print_predictions(
    found: "list[Prediction]",
    *,
    svg: Annotated[
        Path | None,
        Option(
            "--svg",
            "Also write the time line of one loop's round to this file, as SVG.",
            "FILE",
            Output(path_type=Path, dir_okay=False),
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Words or JSON, a loop after the other; exit code 1 if one is refused."""
    if svg:
        drawn = [each for each in found if each.cycles]
        if len(drawn) != 1:
            raise UsageError(f"`svg` shows one loop; {len(drawn)} are predicted: name one by `loop`.")
        files.write(svg, drawn[0].time_line.svg().encode())
    for each in found:
        print_answer(each, as_json)
    if any(each.refused for each in found):
        raise SystemExit(1)
