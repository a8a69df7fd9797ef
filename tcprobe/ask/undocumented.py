"""What was found of sparse multiplies beyond PTX's text: illegal values of metadata, undocumented selectors.

A finding of an arch is `results/<arch>/undocumented.json`. By form `nibbles` has, for each of the 16 values of four
bits and each index field in them, the positions in its chunk at which the stored unit was multiplied ([]: nowhere;
None: D was no product of one element, or units differ). `selectors` says what an undocumented one led to: "refused" by
the compiler, "fault", "hangs", "unsound" answers, or "runs" `as` a documented one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tcprobe.errors import DataError
from tcprobe.isa import inventory
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.sparsity import sparsity
from tcprobe.store.choose import Layers, layers_of, whence
from tcprobe.store.measurement import PROVENANCE
from tcprobe.store.results import Results
from tcprobe.store.surveys import UNDOCUMENTED

OUTCOMES = ("refused", "fault", "hangs", "unsound", "runs")
MOST_SELECTORS = 16
_KEYS = {"arch", "method", "provenance", "forms"}


@dataclass(frozen=True)
class Undocumented:
    """The finding of one form on one arch: `nibbles` and `selectors` as saved."""

    metadata: Fragment
    arch: str
    nibbles: list[list[list[int] | None]]
    selectors: Mapping[int, Mapping[str, Any]]
    provenance: Mapping[str, str]
    source: str

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        selectors = {str(number): dict(outcome) for number, outcome in self.selectors.items()}
        return {"nibbles": self.nibbles, "selectors": selectors, "provenance": {"method": "live", **self.provenance}}

    @property
    def lines(self) -> list[str]:
        """In words: what illegal values and undocumented selectors do."""
        return [*self.values_said, *self.selectors_said, *([self._how] if self.selectors or self.nibbles else [])]

    @property
    def _how(self) -> str:
        device, driver = self.provenance["device"], self.provenance["driver"]
        return f"(beyond what is documented: found live on {device}, driver {driver}, {whence(self.source)})"

    @property
    def values_said(self) -> list[str]:
        """What illegal values do."""
        rule = sparsity(self.metadata)
        illegal = [value for value in range(len(self.nibbles)) if value not in rule.legal]
        free = [[[value >> rule.bits * field & (1 << rule.bits) - 1] for field in range(rule.fields)]
                for value in range(16)]  # fmt: skip
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


def beyond(metadata: Fragment, name: str, results: Results | Layers) -> Undocumented | None:
    """What was found of the metadata of a multiply on an arch, None if nothing; DataError for a damaged file."""
    return next((one for one in everything(name, results) if one.metadata == metadata), None)


def everything(name: str, results: Results | Layers) -> Iterator[Undocumented]:
    """What was found of each multiply on an arch, in the nearest folder that has any; DataError for a damaged file."""
    for layer in layers_of(results).layers:
        saved = UNDOCUMENTED.read(layer.results, name)
        if saved is None:
            continue
        for id_, form in forms(name, saved).items():
            metadata = inventory.instructions()[id_].fragment("e")
            selectors = {int(number): outcome for number, outcome in form["selectors"].items()}
            yield Undocumented(metadata, name, form["nibbles"], selectors, saved["provenance"], layer.name)


def document(name: str, provenance: Mapping[str, str], findings: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """What `store.surveys.UNDOCUMENTED` saves, checked."""
    body = {"arch": name, "method": "live", "provenance": dict(provenance), "forms": dict(findings)}
    forms(name, body)
    return body


def forms(name: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """The findings of a saved body by instruction; DataError where one can be none."""
    try:
        provenance, findings = body["provenance"], body["forms"]
        if (
            set(body) != _KEYS
            or (body["arch"], body["method"]) != (name, "live")
            or set(provenance) != set(PROVENANCE)
            or not all(isinstance(text, str) for text in provenance.values())
        ):
            raise DataError("not the arch, method or provenance of a finding")
        for id_, form in findings.items():
            _check(id_, form)
    except (DataError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise DataError(f"undocumented.json of {name}: not what tcprobe writes ({error}).") from None
    return dict(findings)


def _check(id_: str, form: Mapping[str, Any]) -> None:
    """DataError unless the finding can be that of a sparse multiply."""
    row = inventory.instructions().get(id_)
    if row is None or row.metadata is None or set(form) != {"nibbles", "selectors"}:
        raise DataError(f"{id_}: no finding of a sparse multiply")
    rule, known = sparsity(row.metadata), row.metadata.selectors
    values, selectors = list(form["nibbles"]), form["selectors"]
    fits = [isinstance(fields, list) and len(fields) == rule.fields and all(_is_read(f, rule.positions) for f in fields)
            for fields in values]  # fmt: skip
    if len(fits) != 1 << 4 or not all(fits):
        raise DataError(f"{id_}: no positions of 16 values")
    if not set(selectors) <= {str(number) for number in range(len(known), MOST_SELECTORS)}:
        raise DataError(f"{id_}: selectors that are documented, or none")
    if not all(_is_outcome(outcome, known) for outcome in selectors.values()):
        raise DataError(f"{id_}: no outcome of a selector")


def _is_outcome(outcome: Mapping[str, Any], known: tuple[int, ...]) -> bool:
    if set(outcome) != {"outcome", "words", "as"} or outcome["outcome"] not in OUTCOMES:
        return False
    same = outcome["as"]
    fits = same is None or (type(same) is int and outcome["outcome"] == "runs" and same in known)
    return fits and isinstance(outcome["words"], str)


def _is_read(read: object, positions: int) -> bool:
    if read is None:
        return True
    return isinstance(read, list) and len(read) <= 1 and all(type(n) is int and 0 <= n < positions for n in read)


def _hex(values: list[int]) -> str:
    return " ".join(f"{value:#x}" for value in values)


def _read(fields: list[list[int] | None]) -> str:
    said = ["no single product" if one is None else _index(one) for one in fields]
    return ", ".join(said) if len(set(said)) > 1 else said[0]


def _index(positions: list[int]) -> str:
    return f"index {positions[0]}" if positions else "multiplies nothing"


def _outcome(form: Mapping[str, Any]) -> str:
    if form["outcome"] == "runs":
        return "taken, a map of its own" if form["as"] is None else f"taken, reads the lanes of selector {form['as']}"
    words = {"refused": "refused by the compiler", "fault": "taken by the compiler, the GPU faults",
             "hangs": "taken by the compiler, the GPU hangs", "unsound": "taken, no product of A and B"}  # fmt: skip
    said = f" ({form['words']})" if form["words"] and form["outcome"] != "refused" else ""
    return words[form["outcome"]] + said
