"""The parts of a worker's job: experiments with their launches and kernels, in chunks that are compiled together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cache, cached_property

from tcprobe.probes import experiments, of_kind
from tcprobe.probes.experiment import Bench, Dialogue, Experiment, Readout, ptx_hash
from tcprobe.probes.ptx import Kernel, Launch

CHUNK = 48  # multiplies that are compiled together, while the chunk before them runs


@dataclass(frozen=True)
class Planned:
    """An experiment with its launches (a dialogue has none yet), its kernels by name, and their hash.

    The kernels' texts are made when they are first needed, and live as long as this object.
    """

    experiment: Experiment | Dialogue
    launches: Sequence[Launch]

    @cached_property
    def kernels(self) -> Mapping[str, Kernel]:
        """By name, each once."""
        return {kernel.name: kernel for kernel in kernels_of(self.experiment, self.launches)}

    @cached_property
    def ptx(self) -> str:
        """The hash of all texts."""
        return ptx_hash(list(self.kernels.values()))

    def prepare(self) -> str:
        """Make all texts beforehand; returns their hash."""
        return self.ptx

    @property
    def output_bytes(self) -> int:
        """Bytes of all outputs, by which the work of running and decoding is estimated."""
        return sum(launch.output_bytes for launch in self.launches)

    @property
    def target(self) -> str:
        """The target with a suffix that it needs, such as `sm_120a`; "" if it needs none."""
        experiment = self.experiment
        target = experiment.target if isinstance(experiment, Dialogue) else experiment.fragments[0].target
        return "" if target.name[-1].isdigit() else target.name

    @property
    def about(self) -> dict[str, object]:
        """What all messages about the experiment have."""
        return {"experiment": self.experiment.id, "ptx": self.ptx}

    def run(self, bench: Bench) -> Callable[[], Readout]:
        """Run it; returns a function that decodes the outputs, which another thread may call."""
        experiment = self.experiment
        if isinstance(experiment, Dialogue):
            reading = experiment.measure(bench)
            return lambda: reading
        outputs = bench.run(self.launches)
        return lambda: experiment.decode(self.launches, outputs)


def plan_of(kind: str, id_: str) -> Planned:
    """An experiment's plan. It has a copy of a dialogue, so that what the dialogue caches is freed with the plan."""
    experiment = of_kind(kind)[id_]
    return Planned(copy(experiment), []) if isinstance(experiment, Dialogue) else _plan_with_launches(experiment.id)


@cache
def _plan_with_launches(id_: str) -> Planned:
    """The plan of an experiment whose launches are known beforehand, made once."""
    return Planned(experiments()[id_], experiments()[id_].launches())


def kernels_of(experiment: Experiment | Dialogue, launches: Sequence[Launch]) -> Sequence[Kernel]:
    """The kernels of an experiment whose launches are planned."""
    return experiment.kernels() if isinstance(experiment, Dialogue) else [launch.kernel for launch in launches]


def chunks(plans: Sequence[Planned]) -> list[list[Planned]]:
    """Chunks: first the experiments that others need (wmma fragments), then the rest, the largest first, CHUNK in each.

    Those that need a special target (`sm_90a`) have chunks of their own at the end.
    """
    late = sorted((plan for plan in plans if not plan.experiment.early), key=lambda plan: -plan.output_bytes)
    parts = [[plan for plan in late if plan.target == target] for target in sorted({plan.target for plan in late})]
    late_parts = [part[start : start + CHUNK] for part in parts for start in range(0, len(part), CHUNK)]
    return [chunk for chunk in ([plan for plan in plans if plan.experiment.early], *late_parts) if chunk]


def names(chunk: Sequence[Planned]) -> set[str]:
    """The names of a chunk's kernels."""
    return {name for plan in chunk for name in plan.kernels}


def kernels(chunk: Sequence[Planned]) -> list[Kernel]:
    """All kernels of a chunk, each once."""
    return list({name: kernel for plan in chunk for name, kernel in plan.kernels.items()}.values())
