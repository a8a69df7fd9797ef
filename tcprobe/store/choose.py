"""Which measurement counts, where several stand side by side: of several methods, in one folder or in several.

>>> from tcprobe.isa import inventory
>>> from tcprobe.store.choose import alone
>>> from tcprobe.store.results import published
>>> found = alone(published()).choose(inventory.fragment("mma.m16n8k16.row.col.f32.f16.f16.f32.a"), ["sm_90"])
>>> found.measured.method, found.source
('live', 'published')

Folders have an order: what was measured here takes precedence over what tcprobe publishes. Of the measurements with a
table the strongest method counts (live, sass, derived, same-opcode, emulated), at the same method the folder that comes
before the others, and of several archs the newest; who names no arch means those that the uppermost folder has. Nothing
else decides which table an answer, a page or an emitted text gives. What was refused or failed hides no table; it only
explains why there is none.
"""

from __future__ import annotations

import json
import os
import sys
from collections import ChainMap, Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from tcprobe.errors import DataError, UsageError
from tcprobe.isa import inventory
from tcprobe.isa.arch import ARCHS
from tcprobe.isa.arch import arch as find_arch
from tcprobe.isa.fragment import Fragment
from tcprobe.layout.table import Table
from tcprobe.store import documents
from tcprobe.store.finding import METHODS, PUBLISHED, Measurement, witness
from tcprobe.store.results import Results, published
from tcprobe.system.files import is_folder
from tcprobe.values import Json

if TYPE_CHECKING:
    from pathlib import Path

    from tcprobe.store.finding import Finding, Sourced


HERE = "results"  # the folder that is read where none is named
MANY = 32  # files looked for in a folder, from which on it is listed
T = TypeVar("T")
LayoutPlace = tuple[str, str, str, str]  # layer, arch, method, experiment


class Layer(NamedTuple):
    """A folder of measurements, its name in answers ("published", or its path), and that of the folder it belongs to.

    A folder may have runs of other devices, drivers or compilers: each is a layer of the same `group`.
    """

    results: Results
    name: str
    group: str


class Found(NamedTuple):
    """A measurement, and the name of the layer that holds it."""

    measured: Measurement
    source: str
    group: str

    def table(self, fragment: Fragment) -> Table:
        """Its table of a fragment; KeyError if it has none."""
        return self.measured.tables[fragment.operand]


class Layers:
    """Folders of measurements, each taking precedence over those after it. Short-lived: it takes the folders as they
    are.

    A file that cannot be trusted is left out, and `say` told so once, where a layer below may take its place; in the
    last layer, and where no table is left, it is a DataError.
    """

    def __init__(self, layers: Sequence[Layer], say: Callable[[str], None] | None = None) -> None:
        self.layers = tuple(layers)
        self._say = say or (lambda text: print(text, file=sys.stderr))
        self._distrusted: dict[LayoutPlace, DataError] = {}
        self._looked: Counter[tuple[str, str, str]] = Counter()  # how often a folder was looked into
        self._listed: dict[tuple[str, str, str], frozenset[str]] = {}  # what is there
        self._findings: dict[tuple[str, str], dict[str, Sourced]] = {}  # by kind and arch
        self._found: dict[tuple[str, str], bool] = {}  # whether there are any
        self._layouts: dict[tuple[str, str], Mapping[str, str]] = {}  # ids by experiment and arch
        self._sharing: dict[tuple[str, str], list[str]] = {}  # by layout and arch
        self._of_one: dict[tuple[str, ...], list[Found]] = {}  # what is saved of an experiment on one arch
        self._groups = tuple(dict.fromkeys(layer.group for layer in self.layers))

    @property
    def words(self) -> str:
        """Where one looks, in words."""
        return " or ".join("the published tables" if name == PUBLISHED else name for name in self._groups)

    @property
    def names(self) -> str:
        """The names of all layers."""
        return ", ".join(self._groups)

    @property
    def with_published(self) -> bool:
        """Whether what tcprobe publishes is among the layers, and with it what is only documented."""
        return PUBLISHED in self._groups

    def archs(self) -> list[str]:
        """Archs with measurements in any layer, ascending."""
        names = {name for layer in self.layers for name in layer.results.archs()}
        return [row.name for row in ARCHS if row.name in names]

    def usual_archs(self, fragment: Fragment) -> list[str]:
        """The archs that are meant where none is named: those with a table in the uppermost layer that has any."""
        for layer in self.layers[:-1]:
            if archs := self._archs_of(layer, fragment):
                return archs
        return self.archs()

    def choose(self, fragment: Fragment, archs: Sequence[str]) -> Found | None:
        """The measurement whose table of a fragment counts, None if no layer has one.

        DataError where there are only files that cannot be trusted.
        """
        counting = next(self.tables(fragment, archs), None)
        if counting and len(self._groups) < len(self.layers):
            return self._strongest(fragment, counting)
        if counting is None:
            for (_, name, _, experiment), error in self._distrusted.items():
                if experiment == fragment.experiment and name in archs:
                    raise error
        return counting

    def _strongest(self, fragment: Fragment, counting: Found) -> Found:
        """Of what stands in the folder of `counting`, by the same method: the table that most kinds of GPUs show."""
        like = (counting.group, counting.measured.method)
        beside = [f for f in self.tables(fragment, [counting.measured.arch]) if (f.group, f.measured.method) == like]
        by_table: dict[str, set[str]] = {}
        for one in beside:
            by_table.setdefault(one.table(fragment).id, set()).add(witness(one.measured))
        return max(beside, key=lambda one: len(by_table[one.table(fragment).id]))

    def tables(self, fragment: Fragment, archs: Sequence[str]) -> Iterator[Found]:
        """All measurements with a table of a fragment, the one that counts first."""
        return (f for f in self.saved(fragment.experiment, archs) if fragment.operand in f.measured.tables)

    def saved(self, experiment: str, archs: Sequence[str], methods: Sequence[str] = METHODS) -> Iterator[Found]:
        """The measurements of an experiment, refused and failed ones too, in the order in which they count."""
        if len(archs) > 1 or methods is not METHODS:
            return self._saved(experiment, archs, methods)
        key = (experiment, *archs)
        if key not in self._of_one:
            self._of_one[key] = list(self._saved(experiment, archs, methods))
        return iter(self._of_one[key])

    def _saved(self, experiment: str, archs: Sequence[str], methods: Sequence[str]) -> Iterator[Found]:
        for layer, name, method in self._places(archs, methods):
            measurement = self._read(layer, (name, method, experiment))
            if measurement:
                yield Found(measurement, layer.name, layer.group)

    def layout(self, fragment: Fragment, arch: str) -> str | None:
        """The layout id of the table that counts on an arch, None if there is none. Quick where it is published."""
        return self._named(fragment.experiment, arch).get(fragment.operand)

    def sharing(self, layout: str, arch: str, fragment: Fragment) -> list[str]:
        """Ids of the fragments whose table that counts on an arch has a layout, as that of `fragment` has."""
        if (layout, arch) not in self._sharing:
            found: set[str] = set()
            for layer, name, method in self._places([arch]):
                listed = self._experiments(layer, name, method)
                likely = inventory.may_hold(fragment, listed)
                found.update(e for e in likely if layer.results.mentions(layout, name, method, e))
            experiments = found
            operands = {e: [o for o, id_ in self._named(e, arch).items() if id_ == layout] for e in experiments}
            self._sharing[layout, arch] = inventory.ids_of(operands)
        return self._sharing[layout, arch]

    def _named(self, experiment: str, arch: str) -> Mapping[str, str]:
        """Layout ids by operand of the tables of an experiment that count on an arch."""
        if (experiment, arch) not in self._layouts:
            places = ((layer, (name, method, experiment)) for layer, name, method in self._places([arch]))
            self._layouts[experiment, arch] = ChainMap(*(self._in_file(*place) for place in places))
        return self._layouts[experiment, arch]

    def _in_file(self, layer: Layer, key: tuple[str, str, str]) -> dict[str, str]:
        if layer.group == PUBLISHED:
            return layer.results.named_layouts(*key) if self._may_have(layer, key) else {}
        measurement = self._read(layer, key)
        return {operand: table.id for operand, table in measurement.tables.items()} if measurement else {}

    def multiply(self, name: str, like: Measurement) -> Measurement | None:
        """The measurement of a multiply on the arch and by the method of another; None if it was not measured."""
        for layer, arch, method in self._places([like.arch]):
            measurement = self._read(layer, (arch, method, name)) if method == like.method else None
            if measurement and measurement.status == "measured":
                return measurement
        return None

    def _places(self, archs: Sequence[str], methods: Sequence[str] = METHODS) -> Iterator[tuple[Layer, str, str]]:
        """(layer, arch, method) wherever there are measurements, in the order in which they count."""
        for method in methods:
            for layer in self.layers:
                for name in reversed(archs):
                    if method in layer.results.methods(name):
                        yield layer, name, method

    def lowerings(self, arch: str) -> Iterator[tuple[Json, str]]:
        """What the multiplies of an arch become, as in `Results.lowering`, and whose layer says so, nearest first."""
        return self.documents(arch, "lowering", lambda results: results.lowering(arch))

    def documents(self, arch: str, kind: str, read: Callable[[Results], T | None]) -> Iterator[tuple[T, str]]:
        """What `read` gives of every layer that has something of an arch, and whose layer, nearest first."""
        for layer in self.layers:
            body = self._trusted(layer, (layer.name, arch, "", kind), partial(read, layer.results))
            if body:
                yield body, layer.name

    def opcodes(self, arch: str) -> dict[str, tuple[dict[str, Table], str]]:
        """The layouts of an arch's tensor-core opcodes and what anchors them, from the nearest layer that has any."""
        nearest = next(self.documents(arch, "opcodes", partial(_opcodes, arch)), None)
        return nearest[0] if nearest else {}

    def findings(self, kind: str, arch: str) -> dict[str, Sourced]:
        """What was measured of a kind on an arch, by subject: of each what counts (`_counting`)."""
        from tcprobe.store.findings import every

        if (kind, arch) not in self._findings:
            by_subject: dict[str, list[tuple[Finding, str]]] = {}
            for found, name in self.documents(arch, kind, lambda results: list(every(results, kind, arch))):
                for finding in (one for one in found if one.status == "measured"):
                    by_subject.setdefault(finding.subject, []).append((finding, name))
            self._findings[kind, arch] = {subject: self._counting(found) for subject, found in by_subject.items()}
        return self._findings[kind, arch]

    def has_findings(self, kind: str, arch: str) -> bool:
        """Whether anything was measured of a kind on an arch, without reading all of it."""
        from tcprobe.store.findings import every

        def first(results: Results) -> bool:
            return any(one.status == "measured" for one in every(results, kind, arch))

        if (kind, arch) not in self._found:
            there = bool(self._findings.get((kind, arch))) or any(True for _ in self.documents(arch, kind, first))
            self._found[kind, arch] = there
        return self._found[kind, arch]

    def finding(self, kind: str, arch: str, subject: str) -> Sourced | None:
        """What was measured of one subject and counts (`_counting`); None if no layer has it."""
        from tcprobe.store.finding import Key
        from tcprobe.store.findings import read as read_finding

        if (kind, arch) in self._findings:
            return self._findings[kind, arch].get(subject)
        keys = [Key(kind, arch, method, subject) for method in METHODS]

        def read(results: Results) -> list[Finding]:
            return [found for key in keys if (found := read_finding(results, key)) and found.status == "measured"]

        layered = self.documents(arch, f"{kind} {subject}", read)
        found = [(finding, name) for findings_of_layer, name in layered for finding in findings_of_layer]
        return self._counting(found) if found else None

    def _counting(self, found: Sequence[tuple[Finding, str]]) -> Sourced:
        """Of findings of one subject, the nearest layer's first, the one that counts, with what agrees and disagrees.

        As with tables the nearest folder counts, in it the strongest method, and of its runs what most devices found.
        If another thing was found by as many, both are rivals, and there is no answer.
        """
        from tcprobe.store.finding import Sourced
        from tcprobe.store.kinds import differences

        if len(found) == 1:
            return Sourced(*found[0], (found[0][0],))
        group = {layer.name: layer.group for layer in self.layers}
        nearest = [one for one in found if group[one[1]] == group[found[0][1]]]
        method = min((one.method for one, _ in nearest), key=METHODS.index)
        candidates = [one for one in nearest if one[0].method == method]

        def agreeing(finding: Finding) -> tuple[Finding, ...]:
            return tuple(other for other, _ in found if other is finding or not differences(finding, other))

        def witnesses(finding: Finding) -> int:
            among = agreeing(finding)
            return len({witness(other) for other, _ in candidates if any(other is one for one in among)})

        most = max(witnesses(finding) for finding, _ in candidates)
        best = [one for one in candidates if witnesses(one[0]) == most]
        counting, source = best[0]
        alike = agreeing(counting)
        otherwise = tuple(other for other, _ in found if not any(other is one for one in alike))
        tied = any(other is one for other, _ in best for one in otherwise)
        return Sourced(counting, source, alike, otherwise, tuple(one for one, _ in best) if tied else ())

    def _archs_of(self, layer: Layer, fragment: Fragment) -> list[str]:
        """The archs for which a layer has a table of a fragment, ascending."""

        def has(name: str, method: str) -> bool:
            measurement = self._read(layer, (name, method, fragment.experiment))
            return measurement is not None and fragment.operand in measurement.tables

        return [name for name in self.archs() if any(has(name, method) for method in layer.results.methods(name))]

    def _read(self, layer: Layer, key: tuple[str, str, str]) -> Measurement | None:
        if not self._may_have(layer, key):
            return None
        return self._trusted(layer, (layer.name, *key), partial(_consistent, layer, *key))

    def _may_have(self, layer: Layer, key: tuple[str, str, str]) -> bool:
        """Whether there can be such a file: a folder is listed once that many are looked for in it."""
        place = (layer.name, *key[:2])
        self._looked[place] += 1
        if self._looked[place] == MANY:
            with suppress(DataError):  # which reading says again, of each file
                self._experiments(layer, *key[:2])
        return place not in self._listed or key[2] in self._listed[place]

    def _experiments(self, layer: Layer, arch: str, method: str) -> frozenset[str]:
        """What is saved in a folder."""
        place = (layer.name, arch, method)
        if place not in self._listed:
            self._listed[place] = layer.results.listed(arch, method)
        return self._listed[place]

    def _trusted(self, layer: Layer, layout_place: LayoutPlace, read: Callable[[], T | None]) -> T | None:
        """What `read` gives, None where the file cannot be trusted and another layer lies below."""
        if layout_place in self._distrusted:
            return None
        try:
            return read()
        except DataError as error:
            if layer is self.layers[-1]:
                raise
            self._distrusted[layout_place] = error
            self._say(f"Left out: {error}")
            return None


def _consistent(layer: Layer, *key: str) -> Measurement | None:
    """A saved measurement; DataError where its tables do not hang together. What is published was checked before."""
    arch, method, experiment = key
    measurement = layer.results.measurement(arch, method, experiment)
    if measurement and layer.group != PUBLISHED:
        from tcprobe.store import consistency

        with documents.naming(layer.name):
            consistency.check(measurement, layer.results)
    return measurement


def _opcodes(arch: str, results: Results) -> dict[str, tuple[dict[str, Table], str]]:
    saved = results.opcodes(arch)
    return {o: ({k: results.layout(id_) for k, id_ in d["layouts"].items()}, d["source"]) for o, d in saved.items()}


def alone(results: Results) -> Layers:
    """One folder with its runs, and nothing under it."""
    name = _name(results)
    runs = (Layer(run, f"{name}, run {os.path.basename(run.folder)}", name) for run in results.runs())
    return Layers([Layer(results, name, name), *runs])


def over_published(folder: str | os.PathLike[str]) -> Layers:
    """A folder over what tcprobe publishes; one of the two where they are the same."""
    above, below = Results(folder), alone(published())
    return below if _name(above) == PUBLISHED else Layers([*alone(above).layers, *below.layers])


def layers_of(results: Results | Layers) -> Layers:
    """A folder alone, or layers as they are."""
    return results if isinstance(results, Layers) else alone(results)


def default() -> Layers:
    """What was measured into `./results`, if there is anything, over what tcprobe publishes."""
    here = alone(Results(HERE)).layers if is_folder(HERE) else ()
    measured = any(layer.results.methods(row.name) for layer in here for row in ARCHS)
    return over_published(HERE) if measured else alone(published())


def _name(results: Results) -> str:
    """What answers call a folder: its path, quoted where that would break or continue a line of a comment."""
    with suppress(OSError):  # there may be no working directory any more
        if os.path.realpath(results.folder) == os.path.realpath(published().folder):
            return PUBLISHED
    text = results.folder if results.folder != PUBLISHED else os.path.join(os.curdir, PUBLISHED)
    return text if text.isprintable() and not text.endswith("\\") else json.dumps(text)


def layers(folder: Path | None, only: bool = False) -> Layers:
    """The folder of --results over the published tables, or alone; without one `./results`, if it has tables.

    UsageError if the folder is missing.
    """
    if folder is None and not only:
        return default()
    place = folder or HERE
    if not is_folder(place):
        raise UsageError(f"{place}: no such folder.", "no folder", folder=str(place))
    return alone(Results(place)) if only else over_published(place)


def side_by_side(folders: Sequence[Path]) -> Layers:
    """Folders alone, each coming before those after it; without any `default`. UsageError if one is missing."""
    missing = next((folder for folder in folders if not is_folder(folder)), None)
    if missing is not None:
        raise UsageError(f"{missing}: no such folder.", "no folder", folder=str(missing))
    return Layers([layer for folder in folders for layer in alone(Results(folder)).layers]) if folders else default()


def archs_of(arch: str | None, layers: Layers) -> list[str]:
    """The arch that --arch names; without it, and for "all", every arch that has measurements, ascending."""
    return layers.archs() if arch in (None, "all") else [find_arch(at).name for at in (arch or "").split(",")]


def some(names: Sequence[str], most: int = 4) -> str:
    """The first names, and how many more."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
