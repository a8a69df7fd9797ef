"""What a round of a kernel's main loop takes, one step of its tile along k: predicted from the machine code of nvcc."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, NamedTuple

from tcprobe.errors import DataError, EnvironmentUnfitError
from tcprobe.kernel.compiled import compiled
from tcprobe.kernel.gemm import GemmKernel
from tcprobe.loops.costs import STATED, priced
from tcprobe.loops.loop import main_loop
from tcprobe.loops.predict import Prediction, PredictionAnswer, predict
from tcprobe.question.answers import Answer, Meta, plain
from tcprobe.sass import toolchain
from tcprobe.sass.disassemble import programs
from tcprobe.sass.elf import cubin
from tcprobe.store.choose import default
from tcprobe.values import Json


class LoopAnswer(Answer):
    """A round of its main loop, with --budget."""

    predicted: PredictionAnswer | None
    reason: Annotated[str | None, Meta(description="Why it is not predicted.")]


class PredictedLoop(NamedTuple):
    """The prediction, or the reason why there is none."""

    prediction: Prediction | None
    reason: str | None = None

    @property
    def in_words(self) -> Iterator[str]:
        """The cycles and what each pipe is busy, or the reason."""
        if self.prediction is None:
            yield f"a round of its main loop is not predicted: {self.reason}"
        else:
            yield "a round of its main loop, predicted from machine code:"
            yield from (f"  {line}" for line in self.prediction.summary)

    @property
    def answer(self) -> LoopAnswer:
        """What `--json` prints of it."""
        return LoopAnswer.of(self, predicted=self.prediction and self.prediction.answer)

    def to_json(self) -> Json:
        return plain(self.answer)


def predicted_loop(kernel: GemmKernel) -> PredictedLoop:
    """The main loop that multiplies most, of one block of the kernel; a reason where it is not predicted."""
    arch, layers = kernel.gemm.arch.name, kernel.gemm.layers or default()
    if not priced(arch, layers):
        return PredictedLoop(None, f"opcodes have measured prices on {', '.join(STATED)}, not on {arch}")
    try:
        image = cubin(compiled(kernel.source, kernel.gemm.compiled_for, "cubin"))
        (made,) = programs(toolchain.disassembler(), image.arch, image.functions)
    except (EnvironmentUnfitError, DataError) as error:
        return PredictedLoop(None, str(error))
    loop = None if isinstance(made, DataError) else main_loop(made)
    if loop is None:
        return PredictedLoop(None, str(made) if isinstance(made, DataError) else "its machine code has no loop")
    found = predict(loop, layers=layers)
    return PredictedLoop(found if found.cycles else None, found.refused)
