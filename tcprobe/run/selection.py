"""Which experiments a run makes: those of the names that it was given, or of a family or a kind of finding."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence

from tcprobe.errors import UsageError
from tcprobe.isa import inventory, names
from tcprobe.probes import dialogues, experiments
from tcprobe.probes.experiment import Dialogue, Experiment
from tcprobe.run.origin import Probe
from tcprobe.store import kinds
from tcprobe.store.kinds.tensor_memory import KIND as TENSOR_MEMORY

TENSOR_FAMILIES = ("tcgen05",)
KINDS = {"tma": "tensor_maps"}  # kinds by the other names of --family


def select(patterns: Sequence[str], family: str | None = None) -> list[Probe]:
    """Experiments of the fragments and instructions that `patterns` mean, with the fragments they lean on, and where
    operands of theirs are in tensor memory; those of a family alone where one is named, which may be a kind of finding.
    UsageError for a family without any.
    """
    kind = KINDS.get(family or "", family)
    if kind in kinds.names():
        return _of_subjects(kind, patterns)
    meant, in_memory = _meant(patterns), _in_tensor_memory(patterns)
    if family is None:
        return [*meant, *in_memory]
    names.select(family=family)  # which refuses an unknown one
    chosen: list[Probe] = [e for e in meant if any(f.family == family for f in e.fragments)]
    chosen += in_memory if family in TENSOR_FAMILIES else []
    if not chosen:
        raise UsageError(f"nothing of family {family} can be measured here.", "nothing to measure")
    return chosen


def in_words(patterns: Sequence[str], family: str | None) -> str:
    """What a run of dialogues alone is asked for."""
    return f"findings of {family}" if family else f"places in tensor memory of {', '.join(patterns)}"


def _of_subjects(kind: str, patterns: Sequence[str]) -> list[Probe]:
    """The experiments of a kind whose subjects match; UsageError where a pattern matches none."""
    every = dialogues(kind)
    if not every:
        raise UsageError(f"findings of kind {kind} follow from others: run without `family`.")
    for pattern in patterns:
        if not fnmatch.filter(every, pattern):
            raise UsageError(f"{pattern}: not a subject of {kind}; one is {next(iter(every))}.")
    return [one for id_, one in every.items() if not patterns or any(fnmatch.fnmatch(id_, p) for p in patterns)]


def _meant(patterns: Sequence[str]) -> list[Experiment]:
    if not patterns:
        return list(experiments().values())
    wanted: set[str] = set()
    for pattern in patterns:
        meaning = names.resolve(pattern)
        forms = meaning.instructions if len(meaning.instructions) == 1 else []
        placed = _in_tensor_memory([pattern])
        fragments = meaning.fragments if forms or placed else meaning.some_fragments
        named = {f.experiment for f in fragments} | {form.id for form in forms}
        if not named & set(experiments()) and not placed:
            unprobed = inventory.instructions()[next(iter(named))]
            raise UsageError(f"{unprobed.id}: {unprobed.unprobed}.")
        wanted |= named
    return [e for id_, e in experiments().items() if id_ in wanted or _representing(id_) in wanted]


def _representing(id_: str) -> str:
    """The id under which a load or store of tensor memory is listed, whatever the number of its repetitions."""
    return id_.rpartition(".x")[0] if id_.startswith("tcgen05.") else id_


def _in_tensor_memory(patterns: Sequence[str]) -> list[Dialogue]:
    """Where operands of the forms that `patterns` mean, of all without any, are in tensor memory."""
    every = dialogues(TENSOR_MEMORY)
    if not patterns:
        return list(every.values())
    meant = (form.id for pattern in patterns for form in names.resolve(pattern).instructions)
    forms = tuple(f"{id_}." for id_ in meant if id_.startswith("tcgen05."))
    return [one for id_, one in every.items() if id_.startswith(forms)] if forms else []
