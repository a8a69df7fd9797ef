"""What was found of sparse multiplies beyond PTX's text: illegal values of metadata, undocumented selectors.

Findings of kind `undocumented` say it. By form `nibbles` has, for each of the 16 values of four bits and each index
field in them, the positions in its chunk at which the stored unit was multiplied ([]: nowhere; None: D was not a
product of one element, or units differ). `selectors` says what an undocumented one led to: "refused" by the compiler,
"fault", "hangs", "unsound" answers, or "runs" `as` a documented one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tcprobe.ask.describe import UndocumentedAnswer
from tcprobe.isa import inventory
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.instruction import sparsity
from tcprobe.question.answers import plain
from tcprobe.store.choose import Layers
from tcprobe.store.finding import Sourced, source_words
from tcprobe.store.kinds.undocumented import SELECTOR, split
from tcprobe.values import Json

KIND, MOST_SELECTOR = "undocumented", 3


@dataclass(frozen=True)
class Undocumented:
    """The finding of one form on one arch: `nibbles` and `selectors` as saved."""

    metadata: Fragment
    arch: str
    nibbles: list[list[list[int] | None]]
    selectors: Mapping[int, Json]
    provenance: Mapping[str, str]
    source: str

    @property
    def answer(self) -> UndocumentedAnswer:
        """What `--json` prints of it."""
        selectors = {str(number): dict(outcome) for number, outcome in self.selectors.items()}
        return UndocumentedAnswer(self.nibbles, selectors, {"method": "live", **self.provenance})

    def to_json(self) -> Json:
        return plain(self.answer)

    @property
    def lines(self) -> list[str]:
        """In words: what illegal values and undocumented selectors do."""
        said = [*self.values_said, *self.selectors_said]
        if self.selectors or self.nibbles:
            live = f"{self.provenance['device']}, driver {self.provenance['driver']}, {source_words(self.source)}"
            said.append(f"(beyond what is documented: found live on {live})")
        return said

    @property
    def values_said(self) -> list[str]:
        """What illegal values do."""
        rule = sparsity(self.metadata)
        illegal = [value for value in range(len(self.nibbles)) if value not in rule.legal]
        free = [
            [[value >> rule.bits * field & (1 << rule.bits) - 1] for field in range(rule.fields)] for value in range(16)
        ]
        if rule.fields > 1 and self.nibbles == free:
            return [f"illegal values of four bits ({_hex(illegal)}) act as two free indices of {rule.bits} bits"]
        by_read: dict[str, list[int]] = {}
        for value in illegal:
            by_read.setdefault(_read(self.nibbles[value]), []).append(value)
        return [f"illegal values of four bits {_hex(values)}: {words}" for words, values in by_read.items()]

    @property
    def selectors_said(self) -> list[str]:
        """What undocumented selectors lead to."""
        by_outcome: dict[str, list[int]] = {}
        for number, outcome in self.selectors.items():
            by_outcome.setdefault(_outcome(outcome), []).append(number)
        listed = ((", ".join(map(str, numbers)), words) for words, numbers in by_outcome.items())
        return [f"selector {numbers}, undocumented: {words}" for numbers, words in listed]


def beyond(metadata: Fragment, name: str, layers: Layers) -> Undocumented | None:
    """What was found of the metadata of a multiply on an arch, None if nothing; DataError for a damaged file."""
    id_ = metadata.experiment
    nibbles = layers.finding(KIND, name, id_)
    numbers = range(len(metadata.selectors), MOST_SELECTOR + 1)
    tried = {n: one for n in numbers if (one := layers.finding(KIND, name, f"{id_}{SELECTOR}{n}"))}
    return _of_metadata(metadata, nibbles, tried) if nibbles else None


def everything(name: str, layers: Layers) -> list[Undocumented]:
    """What was found of each multiply on an arch, in the order of the inventory; DataError for a damaged file."""
    found = layers.findings(KIND, name)
    selectors: dict[str, dict[int, Sourced]] = {}
    for subject, one in found.items():
        id_, number = split(subject)
        if number is not None:
            selectors.setdefault(id_, {})[number] = one
    rows = [row for id_, row in inventory.instructions().items() if id_ in found]
    return [_of_metadata(row.fragment("e"), found[row.id], selectors.get(row.id, {})) for row in rows]


def _of_metadata(metadata: Fragment, nibbles: Sourced, tried: Mapping[int, Sourced]) -> Undocumented:
    selectors = {number: one.settled.plain["selector"] for number, one in sorted(tried.items())}
    finding = nibbles.settled
    return Undocumented(metadata, finding.arch, finding.plain["nibbles"], selectors, finding.provenance, nibbles.source)


def _hex(values: Sequence[int]) -> str:
    return " ".join(f"{value:#x}" for value in values)


def _read(fields: list[list[int] | None]) -> str:
    said = [
        "no single product" if one is None else f"index {one[0]}" if one else "multiplies nothing" for one in fields
    ]
    return ", ".join(said) if len(set(said)) > 1 else said[0]


def _outcome(outcome: Json) -> str:
    if outcome["outcome"] == "runs":
        return (
            "accepted, with its own map"
            if outcome["as"] is None
            else f"accepted, reads the lanes of selector {outcome['as']}"
        )
    words = {
        "refused": "refused by the compiler",
        "fault": "accepted by the compiler, but the GPU faults",
        "hangs": "accepted by the compiler, but the GPU hangs",
        "unsound": "accepted, no product of A and B",
    }
    said = f" ({outcome['words']})" if outcome["words"] and outcome["outcome"] != "refused" else ""
    return words[outcome["outcome"]] + said
