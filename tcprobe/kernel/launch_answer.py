"""What `kernel gemm --json` prints: the launch, and what was asked of the kernel besides."""

from __future__ import annotations

from typing import Annotated

from tcprobe.kernel.gemm import LaunchAnswer
from tcprobe.kernel.main_loop import LoopAnswer
from tcprobe.kernel.plan import BudgetAnswer
from tcprobe.kernel.products import ProductRun
from tcprobe.question.answers import Answer, Meta


class WayAnswer(Answer):
    """How an element goes through the kernel."""

    element: str
    steps: list[str]


class GemmAnswer(LaunchAnswer):
    """A GEMM's launch; `grid` in C where there is no --size."""

    explain: list[WayAnswer]
    budget: BudgetAnswer | None
    loop: Annotated[LoopAnswer | None, Meta(description="A round of its main loop, with --budget.")]
    run: ProductRun | None
