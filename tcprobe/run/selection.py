"""Selects the experiments of a run: by names of fragments and instructions, by family, or by kind of finding."""

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
    """The experiments on fragments and instructions that match `patterns`, on fragments that these need, and on their
    operands in tensor memory; only those of `family`, if given, which may also be a kind of finding. UsageError if
    there are none.
    """
    kind = KINDS.get(family or "", family)
    if kind in kinds.names():
        return _dialogues_by_subject(kind, patterns)
    tables, in_memory = _table_experiments(patterns), _in_tensor_memory(patterns)
    if family is None:
        return [*tables, *in_memory]
    names.select(family=family)  # which refuses an unknown one
    of_family: list[Probe] = [e for e in tables if any(f.family == family for f in e.fragments)]
    of_family += in_memory if family in TENSOR_FAMILIES else []
    if not of_family:
        raise UsageError(f"nothing of family {family} can be measured here.", "nothing to measure")
    return of_family


def in_words(patterns: Sequence[str], family: str | None) -> str:
    """The subjects of a run of dialogues, in words."""
    return f"findings of {family}" if family else f"places in tensor memory of {', '.join(patterns)}"


def _dialogues_by_subject(kind: str, patterns: Sequence[str]) -> list[Probe]:
    """The experiments of a kind whose subjects match; UsageError if a pattern matches none."""
    every = dialogues(kind)
    if not every:
        raise UsageError(f"findings of kind {kind} follow from others: run without `family`.")
    for pattern in patterns:
        if not fnmatch.filter(every, pattern):
            raise UsageError(f"{pattern}: not a subject of {kind}; one is {next(iter(every))}.")
    return [
        dialogue for id_, dialogue in every.items() if not patterns or any(fnmatch.fnmatch(id_, p) for p in patterns)
    ]


def _table_experiments(patterns: Sequence[str]) -> list[Experiment]:
    if not patterns:
        return list(experiments().values())
    ids: set[str] = set()
    for pattern in patterns:
        meaning = names.resolve(pattern)
        forms = meaning.instructions if len(meaning.instructions) == 1 else []
        in_memory = _in_tensor_memory([pattern])
        fragments = meaning.fragments if forms or in_memory else meaning.some_fragments
        named = {f.experiment for f in fragments} | {form.id for form in forms}
        if not named & set(experiments()) and not in_memory:
            unprobed = inventory.instructions()[next(iter(named))]
            raise UsageError(f"{unprobed.id}: {unprobed.unprobed}.")
        ids |= named
    return [e for id_, e in experiments().items() if id_ in ids or _representing(id_) in ids]


def _representing(id_: str) -> str:
    """The id under which a load or store of tensor memory is listed, without its number of repetitions."""
    return id_.rpartition(".x")[0] if id_.startswith("tcgen05.") else id_


def _in_tensor_memory(patterns: Sequence[str]) -> list[Dialogue]:
    """The experiments on operands in tensor memory, of the forms that `patterns` match; without patterns all."""
    every = dialogues(TENSOR_MEMORY)
    if not patterns:
        return list(every.values())
    ids = (form.id for pattern in patterns for form in names.resolve(pattern).instructions)
    forms = tuple(f"{id_}." for id_ in ids if id_.startswith("tcgen05."))
    return [dialogue for id_, dialogue in every.items() if id_.startswith(forms)] if forms else []
