"""Saved files: canonical, shared by content, whole or refused."""

import json
import random
import shutil
from concurrent.futures import ThreadPoolExecutor

import emulation
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sampling import examples

from tcprobe.errors import DataError, EnvironmentUnfitError, NewerSchemaError
from tcprobe.isa import inventory
from tcprobe.layout.table import StructureHash, Table, slot_table
from tcprobe.store.documents import canonical, seal
from tcprobe.store.finding import Measurement
from tcprobe.store.results import Results, published
from tcprobe.system import files

PROVENANCE = {"device": "d", "driver": "1", "cuda": "13.0", "compiler": "c", "ptx": "0" * 16, "tcprobe": "0.1.0"}
FRAGMENT = inventory.fragments()["wmma.m16n16k16.a.row.f16"]
INSTRUCTION = inventory.instructions()["mma.m16n8k32.row.col.kind::f8f6f4.f32.e2m1.e2m1.f32"]


def measurement(seed=0):
    rng = random.Random(seed)
    tables = {f.operand: emulation.shuffled(f, rng) for f in INSTRUCTION.fragments}
    structure = StructureHash(4096, "ab" * 32)
    return Measurement(INSTRUCTION.id, "sm_120", "live", "measured", PROVENANCE, tables, "PTX ISA", structure)


def with_unread(seed=0):
    """A multiply that reads one of two holders of each element of A."""
    rng = random.Random(seed)
    row = inventory.instructions()["wmma.mma.row.col.m16n16k16.f32.f32"]
    tables = {f.operand: emulation.shuffled(f, rng) for f in row.fragments}
    skipped = {rng.choice(slots) for slots in tables["a"].inverse.values()}
    size = row.fragments[0].elements
    unread = {"a": tuple(tuple(i for i in range(size) if lane * size + i in skipped) for lane in range(32))}
    structure = StructureHash(4096, "ab" * 32)
    return Measurement(row.id, "sm_120", "live", "measured", PROVENANCE, tables, "memory addresses", structure, unread)


@pytest.fixture
def saved(tmp_path):
    results = Results(tmp_path)
    results.write(measurement())
    results.write(Measurement(FRAGMENT.experiment, "sm_120", "live", "refused", PROVENANCE, words='"no", \u00e4'))
    return tmp_path


def test_written_measurements_are_read_back(saved):
    results = Results(saved)
    assert results.measurement("sm_120", "live", INSTRUCTION.id) == measurement()
    results.write(with_unread())
    assert Results(saved).measurement("sm_120", "live", with_unread().experiment) == with_unread()
    assert results.table("sm_120", "live", INSTRUCTION.fragments[1]) == measurement().tables["b"]
    refused = results.measurement("sm_120", "live", FRAGMENT.experiment)
    assert (refused.status, refused.words, dict(refused.tables)) == ("refused", '"no", \u00e4', {})
    assert results.experiments("sm_120", "live") == sorted(
        [INSTRUCTION.id, FRAGMENT.experiment, with_unread().experiment]
    )
    assert results.archs() == ["sm_120"]
    assert results.measurement("sm_90", "live", FRAGMENT.experiment) is None


def test_a_layout_is_stored_once(tmp_path):
    results = Results(tmp_path)
    table = emulation.shuffled(FRAGMENT, random.Random(1))
    for name in ("one", "two"):
        results.write(Measurement(name, "sm_90", "live", "measured", PROVENANCE, {"a": table}))
    assert results.layouts() == [table.id]
    assert Results(tmp_path).sharing("sm_90", "live") == {table.id: [("one", "a"), ("two", "a")]}


def test_threads_may_write_the_same_layout_at_the_same_time(tmp_path):
    """Two archs that are read from machine code at once share layouts."""
    opcode, source = "HMMA.16816.F32", "wmma.mma.row.row.m16n16k16.f32.f32"
    layouts = published().opcodes("sm_86")[opcode]["layouts"]
    tables = {operand: published().layout(layout) for operand, layout in layouts.items()}

    def write(name):
        for _ in range(20):
            results = Results(tmp_path)
            results.write(Measurement("one", name, "sass", "measured", PROVENANCE, tables))
            results.write_opcodes(name, "c", {opcode: (tables, source)})

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, ["sm_80", "sm_86", "sm_89", "sm_90"]))
    assert Results(tmp_path).layouts() == sorted({table.id for table in tables.values()})
    assert Results(tmp_path).opcodes("sm_86")[opcode]["layouts"] == layouts
    assert not list(tmp_path.rglob("*.part"))


def test_the_same_measurement_gives_the_same_bytes(tmp_path):
    for name in ("x", "y"):
        Results(tmp_path / name).write(measurement())
    files = [
        sorted((p.relative_to(tmp_path / n), p.read_bytes()) for p in (tmp_path / n).rglob("*.json")) for n in "xy"
    ]
    assert files[0] == files[1]
    assert len(files[0]) == 5


def refused(root):
    """Whether reading everything under root refuses it; any other exception is a bug."""
    results = Results(root)
    try:
        for experiment in results.experiments("sm_120", "live"):
            results.measurement("sm_120", "live", experiment)
        for layout in results.layouts():
            results.layout(layout)
    except DataError as error:
        return str(root) in str(error)
    return False


def mutated(raw, rng):
    """Bytes changed, cut, inserted or repeated somewhere, never the same as before."""
    place, length = rng.randrange(len(raw)), rng.randint(1, 40)
    head, tail = raw[:place], raw[place:]
    made = {
        "change": head + bytes([tail[0] ^ rng.randint(1, 255)]) + tail[1:],
        "digit": head + tail.replace(b"1", b"2", 1),
        "cut": head + tail[length:],
        "truncate": head,
        "insert": head + rng.randbytes(rng.randint(1, 8)) + tail,
        "repeat": head + tail[:length] + tail,
    }[rng.choice(["change", "digit", "cut", "truncate", "insert", "repeat"])]
    return made if made != raw else raw + b"\n"


@pytest.mark.full
def test_mutated_files_are_never_accepted(mutable):
    """2,000 mutations of each kind of file: refused with the file's name, without a crash."""
    path, read = mutable
    original = path.read_bytes()
    rng = random.Random(path.name)
    for _ in range(2000):
        path.write_bytes(mutated(original, rng))
        with pytest.raises(DataError) as caught:
            read()
        assert str(path) in str(caught.value)
    path.write_bytes(original)
    read()


@pytest.fixture(params=["layout", "measurement", "refusal"])
def mutable(request, tmp_path_factory):
    root = tmp_path_factory.mktemp("mutable")
    results = Results(root)
    results.write(measurement())
    results.write(Measurement(FRAGMENT.experiment, "sm_120", "live", "refused", PROVENANCE, words="w"))
    layout = measurement().tables["d"].id
    if request.param == "layout":
        return results.layout_path(layout), lambda: Results(root).layout(layout)
    experiment = INSTRUCTION.id if request.param == "measurement" else FRAGMENT.experiment
    return results.path("sm_120", "live", experiment), lambda: Results(root).measurement("sm_120", "live", experiment)


@examples(200)
@given(
    value=st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
        max_leaves=12,
    ),
    key=st.sampled_from(
        ["arch", "fragments", "provenance", "schema", "status", "structure", "unread", "row", "threads"]
    ),
)
def test_valid_json_of_the_wrong_kind_is_refused_even_with_a_right_checksum(value, key, tmp_path_factory):
    root = tmp_path_factory.mktemp("wrong")
    results = Results(root)
    results.write(measurement())
    for path, kind in (
        (results.path("sm_120", "live", INSTRUCTION.id), "measurement"),
        (results.layout_path(measurement().tables["a"].id), "layout"),
    ):
        content = json.loads(path.read_text())
        inner = content["layout"] if kind == "layout" else content
        if inner.get(key) == value or (key, value) in (("structure", None), ("unread", {})):
            return  # as valid as before
        inner[key] = value
        body = {k: v for k, v in content.items() if k not in ("kind", "schema", "sha256")}
        try:
            text = seal(kind, body)
        except (TypeError, ValueError):
            continue
        path.write_text(text)
    content_refused = refused(root)
    shutil.rmtree(root)
    assert content_refused or key == "schema"  # the seal writes the schema itself


def test_errors_name_file_place_and_reason(saved):
    results = Results(saved)
    path = results.path("sm_120", "live", INSTRUCTION.id)
    original = path.read_text()
    for text, words in [
        (original[: len(original) // 2], "line .* column .*not JSON"),
        ("[]", "not a tcprobe file"),
        ("{}", "not a tcprobe measurement"),
        (original.replace("4096", "4095"), "checksum"),
        (original.replace('"schema": 1', '"schema": "1"'), "not a tcprobe measurement"),
        ("[" * 100_000, "not JSON"),
    ]:
        path.write_text(text)
        with pytest.raises(DataError, match=words) as caught:
            Results(saved).measurement("sm_120", "live", INSTRUCTION.id)
        assert str(path) in str(caught.value)
    path.write_text(original.replace('"schema": 1', '"schema": 2'))
    with pytest.raises(NewerSchemaError, match="Update tcprobe"):
        Results(saved).measurement("sm_120", "live", INSTRUCTION.id)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(DataError, match="UTF-8"):
        Results(saved).measurement("sm_120", "live", INSTRUCTION.id)


def test_a_renamed_file_is_refused(saved):
    results = Results(saved)
    shutil.copy(results.path("sm_120", "live", INSTRUCTION.id), results.path("sm_120", "live", "other"))
    with pytest.raises(DataError, match="renamed or copied"):
        results.measurement("sm_120", "live", "other")
    ids = results.layouts()
    shutil.copy(results.layout_path(ids[0]), results.layout_path(ids[1]))
    with pytest.raises(DataError, match="belongs to layout"):
        Results(saved).layout(ids[1])


def test_a_missing_layout_is_an_error(saved):
    for path in (saved / "layouts").iterdir():
        path.unlink()
    with pytest.raises(DataError, match="missing"):
        Results(saved).measurement("sm_120", "live", INSTRUCTION.id)


def test_a_folder_that_cannot_be_written_is_a_clear_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(EnvironmentUnfitError, match="cannot write"):
        Results(tmp_path / "file").write(measurement())


def test_a_failed_write_leaves_the_old_file(saved, monkeypatch):
    results = Results(saved)
    before = {p: p.read_bytes() for p in saved.rglob("*.json")}

    def full(part, path):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "replace", full)
    with pytest.raises(EnvironmentUnfitError, match="No space left"):
        results.write(measurement(seed=1))
    assert {p: p.read_bytes() for p in saved.rglob("*") if p.is_file()} == before


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda s: st.lists(s) | st.dictionaries(st.text(), s),
        max_leaves=20,
    )
)
def test_canonical_is_json(value):
    assert json.loads(canonical(value)) == value


@given(st.data())
def test_tables_round_trip(data):
    threads, elements = 2 ** data.draw(st.integers(0, 4)), data.draw(st.integers(1, 5))
    cell = st.none() | st.tuples(st.integers(0, 300), st.integers(0, 300))
    cells = data.draw(st.lists(cell, min_size=threads * elements, max_size=threads * elements))
    table = slot_table(threads, elements, {n: tuple(c and c[j] for c in cells) for j, n in enumerate(("row", "col"))})
    assert Table.from_json(json.loads(json.dumps(table.to_json()))) == table


def test_the_published_tables_are_found():
    assert published().root.is_dir()
