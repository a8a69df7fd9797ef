"""Saved measurements: canonical JSON, each layout stored once under its content's name.

    results/sm_90/live/mma.m16n8k16.row.col.f32.f16.f16.f32.json   one experiment, naming its layouts
    results/layouts/1f0c2a9be47d.json                              a layout: row and col of every slot
    results/sm_90/lowering.json, opcodes.json                      what multiplies become; layouts of those opcodes

So (arch, fragment) leads to its table: `<arch>/<method>/<fragment.experiment>.json`, "fragments", the
operand's layout, `layouts/<it>.json`. Files are whole or absent: they are written aside and renamed.
A file is accepted only if all its bytes are those whose checksum it ends with.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from tcprobe.errors import DataError, EnvironmentUnfitError, NewerSchemaError
from tcprobe.instruction import OPERANDS, Fragment
from tcprobe.measurement import METHODS, PROVENANCE, STATUSES, Measurement, Structure
from tcprobe.table import Table

T = TypeVar("T")
SCHEMA = 1
MOST_BYTES = 8 << 20
_NAMED_LAYOUT = re.compile(r'^  "([abcd])": "([0-9a-f]{12})"', re.MULTILINE)
_CHECKSUM = b',\n "sha256": "'
_plain = json.JSONEncoder(ensure_ascii=False).encode
_KEYS = {
    "experiment", "arch", "method", "status", "provenance", "fragments", "numbering", "structure", "unread", "words",
}  # fmt: skip


class Results:
    """The measurements under `root`. Reading caches; `write` is atomic."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._layouts: dict[str, Table] = {}
        self._read: dict[tuple[str, str, str], Measurement] = {}
        self._named: dict[tuple[str, str, str], dict[str, str]] = {}

    def path(self, arch: str, method: str, experiment: str) -> Path:
        """Where a measurement is stored."""
        return self.root / arch / method / _file_name(experiment)

    def beside(self, arch: str, method: str, experiment: str) -> Path:
        """Where a refusal or failure is recorded that came after a measurement, which stays."""
        return self.path(arch, method, experiment).with_suffix(".failed")

    def layout_path(self, layout: str) -> Path:
        """Where a layout is stored."""
        return self.root / "layouts" / f"{layout}.json"

    def archs(self) -> list[str]:
        """Archs with measurements, ascending."""
        names = {path.parent.name for path in self.root.glob("sm_*/*/") if path.name in METHODS}
        return sorted(names, key=lambda name: (len(name), name))

    def methods(self, arch: str) -> list[str]:
        """Methods by which `arch` was measured, the strongest first."""
        return [m for m in METHODS if (self.root / arch / m).is_dir()]

    def experiments(self, arch: str, method: str) -> list[str]:
        """Ids of the saved experiments, sorted."""
        folder = self.root / arch / method
        names = os.listdir(folder) if folder.is_dir() else []
        return sorted(name.removesuffix(".json").replace("--", "::") for name in names if name.endswith(".json"))

    def measurement(self, arch: str, method: str, experiment: str) -> Measurement | None:
        """A saved measurement, None if there is none; DataError if its file cannot be trusted."""
        key = (arch, method, experiment)
        if key not in self._read:
            path = self.path(*key)
            if not path.exists():
                return None
            self._read[key] = self._measurement(path, key)
        return self._read[key]

    def measurements(self, arch: str, method: str) -> Iterator[Measurement]:
        """All of an arch and method."""
        for experiment in self.experiments(arch, method):
            found = self.measurement(arch, method, experiment)
            if found:
                yield found

    def sharing(self, arch: str, method: str) -> dict[str, list[tuple[str, str]]]:
        """Layout id to the (experiment, operand) on `arch` that have it, both sorted."""
        found: dict[str, list[tuple[str, str]]] = {}
        for experiment in self.experiments(arch, method):
            for operand, layout in self.named_layouts(arch, method, experiment).items():
                found.setdefault(layout, []).append((experiment, operand))
        return dict(sorted(found.items()))

    def named_layouts(self, arch: str, method: str, experiment: str) -> dict[str, str]:
        """Layout ids by operand, straight from a measurement's file; empty if there is none, or it is damaged."""
        key = (arch, method, experiment)
        if key not in self._named:
            try:
                with open(os.path.join(self.root, arch, method, _file_name(experiment)), "rb") as file:
                    raw = file.read()  # hundreds of files: Path takes as long as reading
            except OSError:
                raw = b""
            self._named[key] = dict(_NAMED_LAYOUT.findall(raw.decode())) if raw and _sealed(raw) else {}
        return self._named[key]

    def find(self, arch: str, fragment: Fragment) -> tuple[Measurement, Table | None] | None:
        """The strongest measurement of a fragment on `arch`, and its table if it has one."""
        for method in self.methods(arch):
            found = self.measurement(arch, method, fragment.experiment)
            if found:
                return found, found.tables.get(fragment.operand)
        return None

    def table(self, arch: str, method: str, fragment: Fragment) -> Table | None:
        """A fragment's table by one method, None if there is none."""
        found = self.measurement(arch, method, fragment.experiment)
        return found.tables.get(fragment.operand) if found else None

    def layout(self, layout: str) -> Table:
        """The table of a layout id; DataError if its file is missing or cannot be trusted."""
        if layout not in self._layouts:
            path = self.layout_path(layout)
            if not path.exists():
                raise DataError(f"{path}: missing, though a measurement names it. Measure again with --force.")
            body = _read(path, "layout")
            table = _guard(path, lambda: Table.from_json(body["layout"]))
            if table.id != layout:
                raise DataError(f"{path}: its content belongs to layout {table.id}. Measure again with --force.")
            self._layouts[layout] = table
        return self._layouts[layout]

    def layouts(self) -> list[str]:
        """Ids of all stored layouts, sorted."""
        return sorted(p.stem for p in (self.root / "layouts").glob("*.json"))

    def write(self, measurement: Measurement) -> None:
        """Save a measurement and the layouts that it names, each atomically, layouts first.

        A refusal or failure never takes the place of tables: it is recorded `beside` them, until they are measured.
        """
        key = (measurement.arch, measurement.method, measurement.experiment)
        if measurement.status != "measured" and self._has_tables(key):
            _write(self.beside(*key), _seal("measurement", _to_json(measurement)))
            return
        self._write_layouts(measurement.tables.values())
        _write(self.path(*key), _seal("measurement", _to_json(measurement)))
        self._read[key] = measurement
        self.beside(*key).unlink(missing_ok=True)

    def _has_tables(self, key: tuple[str, str, str]) -> bool:
        try:
            found = self.measurement(*key)
        except NewerSchemaError:
            raise
        except DataError:
            return False
        return found is not None and found.status == "measured"

    def lowering_path(self, arch: str) -> Path:
        """Where the lowering of an arch's multiplies is stored."""
        return self.root / arch / "lowering.json"

    def lowering(self, arch: str) -> dict[str, Any] | None:
        """{"compiler": ..., "instructions": {id: {"opcodes", "others", "refused"}}}, None if there is none."""
        path = self.lowering_path(arch)
        return _read(path, "lowering") if path.exists() else None

    def write_lowering(self, arch: str, compiler: str, instructions: Mapping[str, Any]) -> None:
        """Save what an arch's multiplies become."""
        _write(self.lowering_path(arch), _seal("lowering", {"compiler": compiler, "instructions": dict(instructions)}))

    def opcodes_path(self, arch: str) -> Path:
        """Where the layouts of an arch's tensor-core opcodes are stored."""
        return self.root / arch / "opcodes.json"

    def opcodes(self, arch: str) -> dict[str, Any]:
        """{opcode: {"compiler": ..., "layouts": {operand: layout id}, "source": a wmma.mma}}, empty without any."""
        path = self.opcodes_path(arch)
        found: dict[str, Any] = _read(path, "opcodes")["opcodes"] if path.exists() else {}
        return found

    def write_opcodes(self, arch: str, compiler: str, found: Mapping[str, tuple[Mapping[str, Table], str]]) -> None:
        """Save the layouts of tensor-core opcodes, as (tables by operand, source); others that are saved stay."""
        saved = self.opcodes(arch)
        for opcode, (tables, source) in found.items():
            self._write_layouts(tables.values())
            layouts = {operand: table.id for operand, table in tables.items()}
            saved[opcode] = {"compiler": compiler, "layouts": layouts, "source": source}
        _write(self.opcodes_path(arch), _seal("opcodes", {"opcodes": saved}))

    def _write_layouts(self, tables: Iterable[Table]) -> None:
        for table in tables:
            if table.id not in self._layouts:
                _write(self.layout_path(table.id), _seal("layout", {"layout": table.to_json()}))
                self._layouts[table.id] = table

    def sweep(self) -> None:
        """Remove what a killed process left half-written."""
        for left in self.root.glob("**/*.json.part"):
            left.unlink(missing_ok=True)

    def _measurement(self, path: Path, key: tuple[str, str, str]) -> Measurement:
        body = _read(path, "measurement")
        found = _guard(path, lambda: self._from_json(body))
        if (found.arch, found.method, found.experiment) != key:
            raise DataError(
                f"{path}: holds {found.experiment} of {found.arch}, {found.method}; it was renamed or copied."
            )
        return found

    def _from_json(self, body: dict[str, Any]) -> Measurement:
        _check(body)
        tables = {operand: self.layout(layout) for operand, layout in body.pop("fragments").items()}
        structure = body.pop("structure")
        unread = {o: tuple(tuple(lane) for lane in lanes) for o, lanes in body.pop("unread").items()}
        return Measurement(**body, tables=tables, structure=structure and Structure(**structure), unread=unread)


def _check(body: dict[str, Any]) -> None:
    """DataError unless `body` has the keys and kinds of a measurement, and those that its status calls for."""
    if set(body) != _KEYS or body["status"] not in STATUSES or body["method"] not in METHODS:
        raise DataError("not the keys, status or method of a measurement.")
    provenance, fragments, structure = body["provenance"], body["fragments"], body["structure"]
    if set(provenance) != set(PROVENANCE) or not all(isinstance(v, str) for v in provenance.values()):
        raise DataError(f"provenance needs the keys {', '.join(PROVENANCE)}, each a text.")
    if not {*fragments, *body["unread"]} <= set(OPERANDS):
        raise DataError("fragments or unread name something that is no operand.")
    if structure is not None and (set(structure) != {"triples", "sha256"} or type(structure["triples"]) is not int):
        raise DataError("structure needs triples, a number, and sha256.")
    if any(type(i) is not int for lanes in body["unread"].values() for lane in lanes for i in lane):
        raise DataError("unread holds something that is no number.")
    if body["status"] == "measured":
        fits = fragments and body["words"] is None and isinstance(body["numbering"], str)
    else:
        fits = not fragments and not structure and not body["unread"] and isinstance(body["words"], str)
    if not fits:
        raise DataError(f"status {body['status']} does not go with the rest of the measurement.")


def _file_name(experiment: str) -> str:
    return f"{experiment.replace('::', '--')}.json"


@cache
def published() -> Results:
    """The tables that come with tcprobe: inside the wheel, or `results/` of a checkout."""
    inside = Path(__file__).parent / "published"
    return Results(inside if inside.is_dir() else Path(__file__).parent.parent / "results")


def default() -> Results:
    """`./results` where it holds measurements, else what tcprobe publishes."""
    here = Results(Path("results"))
    return here if here.archs() else published()


def canonical(data: object, indent: str = "") -> str:
    """JSON with sorted keys, one key or list item a line, lists of plain values on one line."""
    if isinstance(data, dict) and data:
        items = [f"{_plain(key)}: {canonical(data[key], indent + ' ')}" for key in sorted(data)]
    elif isinstance(data, list) and data and isinstance(data[0], (list, dict)):
        items = [canonical(value, indent + " ") for value in data]
    else:
        return _plain(data)
    opening, closing = "{}" if isinstance(data, dict) else "[]"
    inner = f",\n{indent} ".join(items)
    return f"{opening}\n{indent} {inner}\n{indent}{closing}"


def _to_json(measurement: Measurement) -> dict[str, Any]:
    structure = measurement.structure
    return {
        "experiment": measurement.experiment,
        "arch": measurement.arch,
        "method": measurement.method,
        "status": measurement.status,
        "provenance": dict(measurement.provenance),
        "fragments": {operand: table.id for operand, table in measurement.tables.items()},
        "numbering": measurement.numbering,
        "structure": structure and {"triples": structure.triples, "sha256": structure.sha256},
        "unread": {operand: [list(lane) for lane in lanes] for operand, lanes in measurement.unread.items()},
        "words": measurement.words,
    }


def _seal(kind: str, body: dict[str, Any]) -> str:
    """The text of a file: body, kind and schema, and at its end the checksum of all that."""
    text = canonical({**body, "kind": kind, "schema": SCHEMA})
    digest = hashlib.sha256(text.encode()).hexdigest()
    return f'{text.removesuffix("}").rstrip()},\n "sha256": "{digest}"\n}}\n'


def _write(path: Path, text: str) -> None:
    part = path.with_name(f"{path.name}.{os.getpid()}.{threading.get_ident()}.json.part")
    try:
        if not path.parent.is_dir():
            path.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(text.encode())
        part.replace(path)
    except OSError as error:
        with suppress(OSError):
            part.unlink()
        raise EnvironmentUnfitError(
            f"cannot write {path}: {error.strerror}. Free space, or choose another folder with --results."
        ) from None


def _read(path: Path, kind: str) -> dict[str, Any]:
    """The body of a file; DataError names the file, the place and the reason if it cannot be trusted."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}.") from None
    content = _parse(path, raw)
    if content.get("kind") != kind or type(content.get("schema")) is not int:
        raise DataError(f"{path}: not a tcprobe {kind}.")
    if content["schema"] > SCHEMA:
        raise NewerSchemaError(
            f"{path}: schema {content['schema']}; this tcprobe knows schema {SCHEMA}. Update tcprobe."
        )
    if not _sealed(raw):
        raise DataError(
            f"{path}: its bytes do not match its checksum; it was damaged or edited. Measure again with --force."
        )
    return {k: v for k, v in content.items() if k not in ("kind", "schema", "sha256")}


def _sealed(raw: bytes) -> bool:
    """Whether the bytes end with the checksum of what is before it, as `_seal` writes it."""
    text = raw.rpartition(_CHECKSUM)[0]
    digest = hashlib.sha256(text + b"\n}").hexdigest().encode()
    return raw == text + _CHECKSUM + digest + b'"\n}\n'


def _parse(path: Path, raw: bytes) -> dict[str, Any]:
    if len(raw) > MOST_BYTES:
        raise DataError(f"{path}: {len(raw)} bytes, more than any file of tcprobe has ({MOST_BYTES}).")
    try:
        content = json.loads(raw.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: byte {error.start} is not UTF-8 text.") from None
    except json.JSONDecodeError as error:
        raise DataError(
            f"{path}, line {error.lineno}, column {error.colno}: not JSON ({error.msg}); truncated?"
        ) from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: not JSON that tcprobe wrote ({error}).") from None
    if not isinstance(content, dict):
        raise DataError(f"{path}: not a tcprobe file (a JSON {type(content).__name__}).")
    return content


def _guard(path: Path, build: Callable[[], T]) -> T:
    """`build()`, its complaints prefixed with the file's name."""
    try:
        return build()
    except DataError as error:
        raise (error if str(error).startswith(str(path.parent.parent)) else DataError(f"{path}: {error}")) from None
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise DataError(f"{path}: not what tcprobe writes ({error}).") from None
