"""Saved measurements: canonical JSON, each layout stored once under its content's name.

    results/sm_90/live/mma.m16n8k16.row.col.f32.f16.f16.f32.json   one experiment, naming its layouts
    results/layouts/1f0c2a9be47d.json                              a layout: row and col of every slot
    results/sm_90/lowering.json, opcodes.json                      what multiplies become; layouts of those opcodes
    results/sm_90/live/banks/ld.shared.b128.json                   findings of other kinds (`store.findings`)
    results/runs/<run>/sm_90/live/...                              the same of another device, driver or compiler
    results/runs/<run>/run.json                                    which that is, and who contributed it

So (arch, fragment) leads to its table: `<arch>/<method>/<fragment.experiment>.json`, "fragments", the layout.
Files are whole or absent; one is accepted if its bytes have the checksum at its end and it says what can be true
(`store.acceptance`). Files of archs and experiments that this tcprobe does not know are left alone.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from tcprobe.errors import DataError, NewerSchemaError
from tcprobe.isa import inventory
from tcprobe.isa.arch import ARCHS, WARP
from tcprobe.isa.fragment import Fragment
from tcprobe.layout.table import MOST_SLOTS, MOST_VALUE, SLOT_OUTPUTS, Axis, Space, Table, Tables, slots
from tcprobe.store import acceptance, documents
from tcprobe.store.documents import naming
from tcprobe.store.finding import METHODS, Measurement
from tcprobe.system import files
from tcprobe.text import one_line
from tcprobe.values import Json

if TYPE_CHECKING:
    from pathlib import Path


T = TypeVar("T")
_NAMED_LAYOUTS = re.compile(r'^ "fragments": \{\n((?:  "[a-z_]+": "[0-9a-f]{12}",?\n)*) \}', re.MULTILINE)
_NAMED_LAYOUT = re.compile(r'"([a-z_]+)": "([0-9a-f]{12})"')
_LAYOUT_FILE = r"[0-9a-f]{12}\.json"
_RUN = r"[a-z0-9][a-z0-9.-]{0,99}"


class Results:
    """The measurements under a folder. Reading caches; `write` is atomic. Reading takes names of files as text: of
    thousands most are not there, and a Path takes longer than looking."""

    def __init__(self, folder: str | os.PathLike[str], shared: str = "") -> None:
        """`shared` is the folder that stores the layouts, where it is not `folder`."""
        self.folder = os.fspath(folder)
        self._shared = shared or self.folder
        self._layouts: dict[str, Table] = {}
        self._read: dict[tuple[str, str, str], Measurement | None] = {}
        self._methods: dict[str, list[str]] = {}
        self._lowerings: dict[str, Json | None] = {}
        self._runs: list[Results] | None = None
        self._bytes: dict[tuple[str, str, str], bytes] = {}

    @cached_property
    def root(self) -> Path:
        """The folder."""
        from pathlib import Path

        return Path(self.folder)

    def path(self, arch: str, method: str, experiment: str) -> Path:
        """Where a measurement is stored."""
        return self.root / arch / method / file_name(experiment)

    def refusal_path(self, arch: str, method: str, experiment: str) -> Path:
        """Where a refusal or failure is recorded that came after a measurement, which stays."""
        return self.path(arch, method, experiment).with_suffix(".failed")

    def layout_path(self, layout: str) -> Path:
        """Where a layout is stored."""
        from pathlib import Path

        return Path(self._layout_place(layout))

    def runs(self) -> list[Results]:
        """What other devices, drivers and compilers measured, a folder of its own each, sorted."""
        if self._runs is None:
            inside, names = os.path.join(self.folder, "runs"), list[str]()
            with suppress(OSError):
                names = sorted(os.listdir(inside))
            runs = (os.path.join(inside, name) for name in names if re.fullmatch(_RUN, name))
            self._runs = [Results(run, self._shared) for run in runs if os.path.exists(os.path.join(run, "run.json"))]
        return self._runs

    def run(self, name: str) -> Results:
        """The folder of a run, which need not exist yet."""
        self._runs = None
        return Results(os.path.join(self.folder, "runs", name), self._shared)

    def archs(self) -> list[str]:
        """Archs with measurements, ascending."""
        return [row.name for row in ARCHS if self.methods(row.name)]

    def methods(self, arch: str) -> list[str]:
        """Methods by which `arch` was measured, the strongest first."""
        if arch not in self._methods:
            folders = {m: os.path.join(self.folder, arch, m) for m in METHODS}
            self._methods[arch] = [m for m, folder in folders.items() if files.is_folder(folder)]
        return self._methods[arch]

    def experiments(self, arch: str, method: str) -> list[str]:
        """Ids of the saved experiments, sorted; DataError if the folder cannot be read."""
        return sorted(self.listed(arch, method))

    def listed(self, arch: str, method: str) -> frozenset[str]:
        """As `experiments`, in no order."""
        folder = os.path.join(self.folder, arch, method)
        try:
            names = os.listdir(folder) if files.is_folder(folder) else []
        except OSError as error:
            raise DataError(f"{folder}: cannot be read: {error.strerror}.") from None
        return frozenset([subject_of(name) for name in names if name.endswith(".json")])

    def measurement(self, arch: str, method: str, experiment: str) -> Measurement | None:
        """A saved measurement, None if there is none; DataError if its file cannot be trusted."""
        key = (arch, method, experiment)
        if key not in self._read:
            self._read[key] = self._measurement(self._place(*key), key)
        return self._read[key]

    def measurements(self, arch: str, method: str) -> Iterator[Measurement]:
        """All of an arch and method whose experiments are known."""
        for experiment in self.experiments(arch, method):
            if inventory.of_experiment(experiment) and (measurement := self.measurement(arch, method, experiment)):
                yield measurement

    def sharing(self, arch: str, method: str) -> dict[str, list[tuple[str, str]]]:
        """Layout id to the (experiment, operand) on `arch` that have it, both sorted."""
        pairs: dict[str, list[tuple[str, str]]] = {}
        for experiment in self.experiments(arch, method):
            for operand, layout in self.named_layouts(arch, method, experiment).items():
                pairs.setdefault(layout, []).append((experiment, operand))
        return dict(sorted(pairs.items()))

    def named_layouts(self, arch: str, method: str, experiment: str) -> dict[str, str]:
        """Layout ids by operand, straight from a measurement's file; empty if there is none, or it is damaged."""
        raw = self._raw((arch, method, experiment))
        match = _NAMED_LAYOUTS.search(raw.decode(errors="replace")) if documents.has_checksum(raw) else None
        return dict(_NAMED_LAYOUT.findall(match[1])) if match else {}

    def mentions(self, layout: str, arch: str, method: str, experiment: str) -> bool:
        """Whether a measurement's file has a layout id anywhere: quick, and true of all that `named_layouts` has."""
        return layout.encode() in self._raw((arch, method, experiment))

    def _raw(self, key: tuple[str, str, str]) -> bytes:
        """The bytes of a measurement's file, none where there is none."""
        if key not in self._bytes:
            with suppress(DataError):
                self._bytes[key] = files.read(self._place(*key)) or b""
        return self._bytes.get(key, b"")

    def table(self, arch: str, method: str, fragment: Fragment) -> Table | None:
        """A fragment's table by one method, None if there is none."""
        measurement = self.measurement(arch, method, fragment.experiment)
        return measurement.tables.get(fragment.operand) if measurement else None

    def layout(self, layout: str) -> Table:
        """The table of a layout id; DataError if its file is missing or cannot be trusted."""
        if layout not in self._layouts:
            path = self._layout_place(layout)
            body = documents.read(path, "layout")
            if body is None:
                raise DataError(f"{path}: missing, though a measurement names it. Measure again with --force.")
            with naming(path):
                table = read_layout(body["layout"])
            if table.id != layout:
                raise DataError(f"{path}: its content belongs to layout {table.id}. Measure again with --force.")
            self._layouts[layout] = table
        return self._layouts[layout]

    def layouts(self) -> list[str]:
        """Ids of all stored layouts, sorted."""
        return sorted(p.stem for p in (self.root / "layouts").glob("*.json") if re.fullmatch(_LAYOUT_FILE, p.name))

    def write(self, measurement: Measurement) -> None:
        """Save a measurement and the layouts that it names, each atomically, layouts first.

        A refusal or failure never takes the place of tables: it is recorded `beside` them, until they are measured.
        """
        key = (measurement.arch, measurement.method, measurement.experiment)
        if measurement.status != "measured" and self.has_tables(key):
            self.set_aside(measurement)
            return
        self._write_layouts(measurement.tables)
        _save(self.path(*key), "measurement", measurement.to_json())
        self._read[key] = measurement
        self._methods.pop(measurement.arch, None)
        self.refusal_path(*key).unlink(missing_ok=True)

    def set_aside(self, measurement: Measurement) -> None:
        """Record a refusal or failure beside the tables that were measured before."""
        path = self.refusal_path(measurement.arch, measurement.method, measurement.experiment)
        _save(path, "measurement", measurement.to_json())

    def has_tables(self, key: tuple[str, str, str]) -> bool:
        """Whether tables are saved there; NewerSchemaError where a later tcprobe wrote the file."""
        measurement, _ = read_trusted(lambda: self.measurement(*key), None)
        return measurement is not None and measurement.status == "measured"

    def lowering_path(self, arch: str) -> Path:
        """Where the lowering of an arch's multiplies is stored."""
        return self.root / arch / "lowering.json"

    def lowering(self, arch: str) -> Json | None:
        """{"compiler": ..., "instructions": {id: {"opcodes", "others", "refused"}}}, None if there is none.

        DataError if the file cannot be trusted.
        """
        if arch not in self._lowerings:
            self._lowerings[arch] = self._lowering(arch)
        return self._lowerings[arch]

    def _lowering(self, arch: str) -> Json | None:
        path = self.lowering_path(arch)
        body = documents.read(path, "lowering")
        if body is not None:
            with naming(path):
                acceptance.lowering(body)
        return body

    def write_lowering(self, arch: str, compiler: str, instructions: Json) -> list[str]:
        """Save what an arch's multiplies become; others that are saved, by the same compiler, stay.

        What is there and cannot be trusted is replaced, and complained of. NewerSchemaError where a later tcprobe wrote
        the file: it stays.
        """
        compiler = one_line(compiler)
        nothing: Json = {"compiler": None}
        with files.locked(self.root / arch):
            before, complaints = read_trusted(lambda: self._lowering(arch) or nothing, nothing)
            kept = before["instructions"] if before["compiler"] == compiler else {}
            body = {"compiler": compiler, "instructions": {**kept, **instructions}}
            _save(self.lowering_path(arch), "lowering", body)
        self._lowerings.pop(arch, None)
        return complaints

    def opcodes_path(self, arch: str) -> Path:
        """Where the layouts of an arch's tensor-core opcodes are stored."""
        return self.root / arch / "opcodes.json"

    def opcodes(self, arch: str) -> Json:
        """{opcode: {"compiler": ..., "layouts": {operand: layout id}, "source": a wmma.mma}}, empty without any.

        DataError if the file, or a layout that it names, cannot be trusted.
        """
        path = self.opcodes_path(arch)
        body = documents.read(path, "opcodes") or {"opcodes": {}}
        with naming(path):
            acceptance.opcodes(body, arch)
        saved: Json = body["opcodes"]
        for opcode, entry in saved.items():
            tables = {operand: self.layout(layout) for operand, layout in entry["layouts"].items()}
            with naming(path):
                acceptance.product(opcode, tables)
        return saved

    def write_opcodes(self, arch: str, compiler: str, opcodes: Mapping[str, tuple[Tables, str]]) -> list[str]:
        """Save the layouts of tensor-core opcodes; others that are saved stay.

        What is there and cannot be trusted is replaced, and complained of. NewerSchemaError as `write_lowering`.
        """
        with files.locked(self.root / arch):
            nothing: Json = {}
            saved, complaints = read_trusted(lambda: self.opcodes(arch), nothing)
            for opcode, (tables, source) in opcodes.items():
                self._write_layouts(tables)
                layouts = {operand: table.id for operand, table in tables.items()}
                saved[opcode] = {"compiler": one_line(compiler), "layouts": layouts, "source": source}
            _save(self.opcodes_path(arch), "opcodes", {"opcodes": saved})
        return complaints

    def _write_layouts(self, tables: Tables) -> None:
        for table in tables.values():
            if table.id not in self._layouts:
                _save(self.layout_path(table.id), "layout", {"layout": layout_json(table)})
                self._layouts[table.id] = table

    def sweep(self) -> None:
        """Remove what a killed tcprobe left half-written, and nothing else."""
        roots = [self.root, *(run.root for run in self.runs())]
        below = ("", "sm_*/", "sm_*/*/", "sm_*/*/*/")
        folders = (folder for root in roots for part in below for folder in (root.glob(part) if part else (root,)))
        files.sweep([*folders, self.root / "layouts"])

    def _place(self, arch: str, method: str, experiment: str) -> str:
        return os.path.join(self.folder, arch, method, file_name(experiment))

    def _layout_place(self, layout: str) -> str:
        return os.path.join(self._shared, "layouts", f"{layout}.json")

    def _measurement(self, path: str, key: tuple[str, str, str]) -> Measurement | None:
        body = documents.read(path, "measurement")
        if body is None:
            return None
        with naming(path):
            acceptance.measurement(body)
        tables = {operand: self.layout(layout) for operand, layout in body.pop("fragments").items()}
        with naming(path):
            measurement = Measurement.from_json(body, tables)
            arch, method, experiment = measurement.arch, measurement.method, measurement.experiment
            if (arch, method, experiment) != key:
                raise DataError(f"holds {experiment} of {arch}, {method}; it was renamed or copied.")
            acceptance.belongs(measurement)
        return measurement


def file_name(subject: str) -> str:
    """The file of what is measured; some systems take no colons."""
    return f"{subject.replace('::', '--')}.json"


def subject_of(name: str) -> str:
    """The inverse of `file_name`."""
    return name.removesuffix(".json").replace("--", "::")


@cache
def published() -> Results:
    """The tables that come with tcprobe: inside the wheel, or `results/` of a checkout."""
    package = os.path.dirname(os.path.dirname(__file__))
    inside = os.path.join(package, "published")
    return Results(inside if os.path.isdir(inside) else os.path.join(os.path.dirname(package), "results"))


def read_trusted(read: Callable[[], T], nothing: T) -> tuple[T, list[str]]:
    """What is read, or `nothing` and a complaint where it cannot be trusted; NewerSchemaError of a later tcprobe."""
    try:
        return read(), []
    except NewerSchemaError:
        raise
    except DataError as error:
        return nothing, [str(error)]


def _save(path: Path, kind: str, body: Json) -> None:
    files.write(path, documents.seal(kind, body).encode(), parents=True)


# How a layout is written: value by value, or, a warpgroup's, by its bases where it is linear. A layout of 128 threads
# x 128 elements takes 100 KB written out; by its bases 1 KB. Its id is that of the table, the same however it is
# written.
_KEYS = {"threads", "elements", "outputs", "origin", "bases"}
MOST_SIDE = 1 << 12  # threads, and elements a thread


def layout_json(table: Table) -> Json:
    """Plain data: `Table.to_json`, or the bases of a linear layout of more than a warp."""
    if table.threads <= WARP or table.space != slots(table.threads, table.elements):
        return table.to_json()
    from tcprobe.fit.linear import Layout, fit_layout

    linear = fit_layout(table)
    if not isinstance(linear, Layout) or None in table.values[table.outputs[0]]:
        return table.to_json()
    bases = {name: [[base[o] for o in table.outputs] for base in of] for name, of in linear.bases.items()}
    return {
        "threads": table.threads,
        "elements": table.elements,
        "outputs": list(table.outputs),
        "origin": [linear.origin[o] for o in table.outputs],
        "bases": bases,
    }


def read_layout(data: object) -> Table:
    """The inverse of `to_json`; DataError where anything is missing or of the wrong kind."""
    if not isinstance(data, dict) or "bases" not in data:
        return Table.from_json(data)
    if set(data) != _KEYS:
        raise DataError(f"a layout given by its bases needs {', '.join(sorted(_KEYS))}.")
    from tcprobe.fit.linear import Layout, unpacked

    space = _space(data["threads"], data["elements"])
    outputs = tuple(data["outputs"])
    if outputs not in (("row",), ("row", "col"), SLOT_OUTPUTS):
        raise DataError("outputs must be row, col and product, in this order.")
    images = tuple(image for axis in reversed(space.axes) for image in _images(data["bases"], axis, outputs))
    layout = Layout(space, outputs, images, _packed(data["origin"], outputs)).packed()
    return Table(space, {o: tuple(column) for o, column in zip(outputs, unpacked(layout, len(outputs)), strict=True)})


def _space(threads: object, elements: object) -> Space:
    if not all(type(n) is int and 0 < n <= MOST_SIDE for n in (threads, elements)):
        raise DataError(f"threads and elements must be numbers from 1 to {MOST_SIDE}.")
    assert isinstance(threads, int)
    assert isinstance(elements, int)
    if threads & (threads - 1) or threads * elements > MOST_SLOTS:
        raise DataError(
            f"{threads} threads x {elements} elements: not a power of two, or more than {MOST_SLOTS} slots."
        )
    return slots(threads, elements)


def _images(bases: Any, axis: Axis, outputs: Sequence[str]) -> list[int]:
    of = bases[axis.name]
    if not isinstance(of, list) or len(of) != axis.bits or set(bases) != {"lane", "i"}:
        raise DataError(f"{axis.name} needs {axis.bits} bases, and there are those of lane and i.")
    return [_packed(base, outputs) for base in of]


def _packed(image: Any, outputs: Sequence[str]) -> int:
    """One element as a number; DataError where it is none."""
    from tcprobe.fit.linear import pack

    fits = isinstance(image, list) and len(image) == len(outputs)
    if not fits or not all(type(v) is int and 0 <= v < MOST_VALUE for v in image):
        raise DataError(f"a base needs {', '.join(outputs)}, each a number below {MOST_VALUE}.")
    return pack(dict(zip(outputs, image, strict=True)), outputs)
