"""Probes of tcgen05.mma and tcgen05.cp: any places in tensor memory are found, spoilt answers are noticed.

Their code is assembled for every target; what is measured counts in answers before what is documented."""

import json
import random
import sys
from dataclasses import replace
from pathlib import Path

import jsonschema
import machine_code
import numpy as np
import pytest
from bench import Live, concluded, found, run
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from sampling import examples

from tcprobe.ask.tensor_memory import Wanted, operand, placed
from tcprobe.cli import main
from tcprobe.errors import DataError, ProbeError
from tcprobe.isa import inventory
from tcprobe.isa.arch import ARCHS, arch
from tcprobe.isa.dtypes import dtype
from tcprobe.layout.cell_runs import places, runs
from tcprobe.probes import dialogues
from tcprobe.probes.experiment import kernels
from tcprobe.probes.slots import unpack
from tcprobe.probes.tensor_multiply_images import COLUMNS, FIRST, REGION, REGIONS
from tcprobe.run.doctor import new_words
from tcprobe.run.emulator import Emulator
from tcprobe.run.selection import select
from tcprobe.sass.cubin import assemble
from tcprobe.store import findings, kinds
from tcprobe.store.folders import layers
from tcprobe.store.kinds.tensor_memory import subject
from tcprobe.store.results import Results

HERE = Path(__file__).parent
KIND = "tensor_memory"
ALL = dialogues(KIND)
SMALL = [id_ for id_ in ALL if ".d." not in id_ or "n64" in id_ or "n128.s32" in id_]
D = "tcgen05.mma.cta_group::1.kind::f16.d.m64n64.f32"
EVERY_KIND = (
    D,
    "tcgen05.mma.cta_group::2.kind::f8f6f4.d.m128n64.f16",
    "tcgen05.mma.ws.cta_group::1.kind::i8.d.m32n64.s32",
    "tcgen05.mma.cta_group::1.kind::tf32.a.m128n64",
    "tcgen05.mma.sp.cta_group::1.kind::f16.e.m64n64.selector1",
    "tcgen05.mma.sp.cta_group::1.kind::mxf4.e.m128n64.selector0",
    "tcgen05.mma.cta_group::1.kind::mxf8f6f4.scale_a.m128n256.1x.selector3",
    "tcgen05.mma.cta_group::1.kind::mxf4nvf4.scale_b.m128n128.4x.selector0",
    "tcgen05.cp.64x128b.memory.warpx2::01_23",
)


class Core(Live, Emulator):
    """A tensor core that a test may change."""


def machine(experiment, kind=Core, **more):
    """An emulator of an arch that has the form."""
    return kind({}, name=next(row.name for row in ARCHS if experiment.target.on(row)), **more)


class Scattered(Core):
    """Elements anywhere, each in one, two or four places as far as there is room."""

    def __init__(self, tables, name, seed):
        super().__init__(tables, name=name)
        self.seed, self.known = seed, {}

    def in_tensor_memory(self, instruction, operand, said):
        key = (operand, said if operand == "memory" else (said.m, said.n, said.d_type, said.selector))
        if key not in self.known:
            self.known[key] = self.scattered(instruction, operand, said, random.Random(f"{self.seed} {operand}"))
        return self.known[key]

    def scattered(self, instruction, operand, said, rng):
        if operand == "memory":
            return anywhere(rng, (instruction.shape.m, instruction.shape.n), 1, (1, 2 * REGION, 32))
        copies = 1 << random.Random(self.seed).randrange(3)
        if operand == "d":
            return anywhere(rng, (said.m, said.n), copies, (said.ctas, said.n, dtype(said.d_type).bits))
        if operand == "a":
            return anywhere(rng, (said.m, said.stored), copies, (said.ctas, REGION, said.bits))
        if operand.startswith("scale_"):
            size = (said.m, said.vector) if operand == "scale_a" else (said.vector, said.n)
            return anywhere(rng, size, copies, (said.ctas, REGION, 8))
        _, _, span, bits = said.chunk  # the lower field of four bits is of the first elements of a chunk
        each = span * (4 // bits)
        four = anywhere(rng, (said.m, said.stored // each), copies, (said.ctas, REGION, 4)).repeat(each, axis=1)
        four[..., 2] += (np.arange(said.stored) // span % (4 // bits) * bits)[:, None]
        return four


def anywhere(rng, size, copies, memory):
    """Places of rows x cols elements, all different, in CTAs x 128 lanes x columns of parts of so many bits."""
    (rows, cols), (ctas, columns, bits) = size, memory
    parts = columns * 32 // bits
    copies = copies if rows * cols * copies <= ctas * 128 * parts else 1
    chosen = np.array(rng.sample(range(ctas * 128 * parts), rows * cols * copies)).reshape(rows, cols, copies)
    return np.stack([chosen // (128 * parts), chosen // parts % 128, chosen % parts * bits], axis=3)


def held_by(machine_of, experiment):
    """What the machine has in tensor memory, as a body says it."""
    if isinstance(getattr(experiment, "multicast", None), str):
        there = machine_of.in_tensor_memory(experiment.row, "memory", experiment.multicast)
    else:
        said = replace(experiment.sized, a_in_tensor=False, selects=experiment.sized.selects)
        there = machine_of.in_tensor_memory(experiment.sized.row, experiment.operand, said)
    return sorted(
        (row, col, *map(int, place)) for row, line in enumerate(there) for col, at in enumerate(line) for place in at
    )


def test_every_operand_of_every_form_is_probed():
    forms = {row.id: row for row in inventory.instructions().values() if row.family == "tcgen05" and not row.fragments}
    probed = {(said.form, said.operand) for said in map(subject, ALL)}
    wanted = {(id_, o.name) for id_, row in forms.items() if row.multiplies for o in row.operands if o.name != "b"}
    wanted |= {(id_, "memory") for id_ in forms if id_.startswith("tcgen05.cp.")}
    assert probed == wanted
    for id_, row in forms.items():
        if row.multiplies:
            assert {said.m for said in map(subject, ALL) if said.form == id_} == set(row.stated["m_values"])
            types = {said.type for said in map(subject, ALL) if (said.form, said.operand) == (id_, "d")}
            assert types == set(row.stated["d_types"])
            assert row.unprobed == "tcprobe measures where its operands are in tensor memory, and nothing else of it"
    assert all(str(subject(id_)) == id_ == ALL[id_].id for id_ in ALL)


@pytest.mark.parametrize("id_", SMALL)
@pytest.mark.sampled(151)
def test_what_is_documented_is_measured_back(id_):
    """As `placed` says it, but for what nobody states: A of .ws with M below 128, six scales of K = 96."""
    experiment = ALL[id_]
    try:
        there = held_by(machine(experiment), experiment)
    except AssertionError as error:
        assert "state no layout" in str(error) or "beyond a cell" in str(error)  # noqa: PT017
        return
    body = concluded(experiment, machine(experiment))
    assert body.held == there
    assert found(experiment, machine(experiment)).body == body


@pytest.mark.parametrize("id_", SMALL[::5])
@pytest.mark.sampled(31)
def test_any_places_are_found(id_):
    experiment = ALL[id_]
    core = machine(experiment, Scattered, seed=id_)
    assert concluded(experiment, core).held == held_by(core, experiment)


@pytest.mark.full
@pytest.mark.parametrize("id_", EVERY_KIND)
@pytest.mark.parametrize("seed", range(3))
def test_operands_of_every_kind_anywhere(id_, seed):
    experiment = ALL[id_]
    core = machine(experiment, Scattered, seed=seed)
    assert concluded(experiment, core).held == held_by(core, experiment)


class Strict(Core):
    """It takes no metadata that PTX does not define: of tf32 two values of four bits, of others six."""

    def run(self, launches):
        for launch in launches:
            sized, first = launch.kernel.op.instruction, REGIONS["e"] - FIRST
            words = launch.inputs[3].view(np.uint32).reshape(-1, COLUMNS)[:, first : first + REGION]
            legal = {0x4, 0xE} if sized.kind == "tf32" else {0x4, 0x8, 0x9, 0xC, 0xD, 0xE}
            assert set(np.unique(unpack(words.copy().view(np.uint8), 4)).tolist()) <= legal
        return super().run(launches)


@pytest.mark.full
@pytest.mark.parametrize("kind", ["tf32", "f16", "i8", "mxf4"])
def test_metadata_are_legal(kind):
    m = 64 if kind != "mxf4" else 128
    experiment = ALL[f"tcgen05.mma.sp.cta_group::1.kind::{kind}.e.m{m}n64.selector0"]
    assert concluded(experiment, machine(experiment, Strict)).held == held_by(machine(experiment), experiment)


class Spoilt(Core):
    """One word of an output is another, or all that one launch wrote is missing."""

    def __init__(self, tables, name, spoil):
        super().__init__(tables, name=name)
        self.spoil, self.launches = spoil, 0

    def run(self, launches):
        raw = super().run(launches)
        self.launches += len(launches)
        return [self.spoil(one.copy(), self.launches) for one in raw]


def one_word(value):
    def spoil(raw, _):
        words = raw.view(np.uint32)
        words[np.flatnonzero(words != 0xA5A5A5A5)[7]] = value
        return raw

    return spoil


def exchanged(raw, _):
    """Two words that differ."""
    words = raw.view(np.uint32)
    used = np.flatnonzero(words != 0xA5A5A5A5)
    other = used[np.flatnonzero(words[used] != words[used[0]])[0]]
    words[[used[0], other]] = words[[other, used[0]]]
    return raw


def nothing(raw, _):
    raw[...] = 0xA5
    return raw


SPOILT = {
    "a strange word": one_word(0x12345678),
    "a word missing": one_word(0xA5A5A5A5),
    "exchanged": exchanged,
    "nothing": nothing,
}


@pytest.mark.sampled(121)
@pytest.mark.parametrize("id_", EVERY_KIND)
@pytest.mark.parametrize("how", SPOILT)
def test_spoilt_answers_are_noticed(id_, how):
    """They are no finding; but what a copy leaves in cells is what it does, as long as every word arrives."""
    experiment = ALL[id_]
    core = machine(experiment, Spoilt, spoil=SPOILT[how])
    if ".cp." in id_ and how in ("a word missing", "exchanged"):
        there, whole = (set(concluded(experiment, of).held) for of in (core, machine(experiment)))
        assert len(whole - there) == (2 if how == "exchanged" else 1)
        return
    with pytest.raises(ProbeError):
        concluded(experiment, core)


class Moved(Core):
    """One element of one operand is elsewhere: where another one was, and that one in its place."""

    def in_tensor_memory(self, instruction, operand, said):
        there = super().in_tensor_memory(instruction, operand, said)
        if operand in ("d", "a", "scale_a", "memory"):
            there[[3, 9], 0] = there[[9, 3], 0]
        return there


@pytest.mark.full
@pytest.mark.parametrize("id_", [id_ for id_ in EVERY_KIND if ".e." not in id_ and ".scale_b." not in id_])
def test_a_wrong_place_is_seen(id_):
    experiment = ALL[id_]
    right, wrong = (concluded(experiment, machine(experiment, kind)).held for kind in (Core, Moved))
    rows = {row for row, *_ in set(right) ^ set(wrong)}
    assert rows == {3, 9}


@given(st.sets(st.tuples(*map(st.integers, (0,) * 5, (3, 12, 1, 3, 40))), max_size=40))
@examples(200)
def test_runs_say_every_place(held):
    assert places(runs(held)) == sorted(held)


def test_rows_are_runs():
    held = [(row, col, 0, row, 16 * col) for row in range(4) for col in range(16)]
    assert [(run.row, run.length, run.step) for run in runs(held)] == [(row, 16, 16) for row in range(4)]


def texts():
    return {kernel.name: kernel for one in ALL.values() for kernel in kernels(one)}


@pytest.mark.full
@machine_code.needs_tools
@pytest.mark.parametrize("target", sorted({t for k in texts().values() for row in ARCHS for t in k.target.every(row)}))
def test_they_are_assembled_for_every_target(target):
    """Each of a family and each of an arch, as far as this ptxas knows it."""
    tools, row = machine_code.TOOLS, arch(target.rstrip("af"))
    if row not in tools.archs:
        pytest.skip(f"ptxas {tools.ptxas_version} does not know {row.name}")
    there = [replace(k, target=k.target.alone(target)) for k in texts().values() if target in k.target.every(row)]
    made, refused = assemble(tools, there, row)
    assert not refused
    assert len(made) == len(there) >= 60
    for kernel in there:
        multiplies = [code for code in made[kernel.name].opcodes if code.startswith(("UTC", "UTCP"))]
        assert any("MMA" in code or "CP" in code for code in multiplies), kernel.name


def test_the_text_waits_for_what_it_uses():
    """Tensor memory is allocated and freed once, the multiply is committed and waited for before cells are read."""
    for kernel in texts().values():
        lines = [line.strip() for line in kernel.text.splitlines()]
        at = {name: [n for n, line in enumerate(lines) if name in line] for name in (".alloc.", ".dealloc.", "commit")}
        at |= {
            name: [n for n, line in enumerate(lines) if name in line] for name in ("try_wait", ".ld.sync", ".st.sync")
        }
        (issue,) = (n for n, line in enumerate(lines) if "tcgen05.mma" in line or "tcgen05.cp" in line)
        assert [len(at[name]) for name in (".alloc.", ".dealloc.", "commit", "try_wait", ".ld.sync", ".st.sync")] == [
            1,
            1,
            1,
            1,
            1,
            2,
        ]
        order = [at[".alloc."][0], *at[".st.sync"], issue, at["commit"][0], at["try_wait"][0], at[".ld.sync"][0]]
        assert [*order, at[".dealloc."][0]] == sorted([*order, at[".dealloc."][0]])
        assert lines[at[".ld.sync"][0] + 1] == "tcgen05.wait::ld.sync.aligned;"
        assert all(lines[n + 1] == "tcgen05.wait::st.sync.aligned;" for n in at[".st.sync"])
        paired = "cta_group::2" in lines[issue]
        assert ("reqnctapercluster 2" in kernel.text, "multicast::cluster" in kernel.text) == (paired, paired)


# findings


class Measured(Core):
    """D's columns are reversed, so an answer that is measured is none that is documented."""

    def in_tensor_memory(self, instruction, operand, said):
        there = super().in_tensor_memory(instruction, operand, said)
        return there[:, ::-1] if operand == "d" else there


MEASURED = (
    "tcgen05.mma.cta_group::1.kind::f16.d.m128n128.f32",
    "tcgen05.mma.cta_group::1.kind::f16.a.m128n64",
    "tcgen05.mma.cta_group::2.kind::f16.d.m128n128.f32",
    "tcgen05.cp.128x128b.memory",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Some findings on sm_103."""
    made = tmp_path_factory.mktemp("measured")
    run(KIND, Measured({}, name="sm_103"), made, MEASURED)
    return made


def told(*arguments, code=0):
    done = CliRunner().invoke(main, [*map(str, arguments)])
    assert done.exit_code == code, (done.output, done.exception)
    return done.output


def test_findings_are_files_of_their_schema(folder):
    every = list(findings.every(Results(folder), KIND, "sm_103"))
    assert {one.subject for one in every} == set(MEASURED)
    for one in every:
        jsonschema.validate(one.plain, kinds.schema(KIND))
    assert kinds.kind(KIND).words(every).endswith("places of 4 operands of 3 forms in tensor memory")


def test_what_is_measured_counts_first(folder):
    """D is where it was measured, A where both say so; of other sizes and archs documents answer."""
    name, size = "tcgen05.mma.cta_group::1.kind::f16", ("--n", "128")
    where = ("where", f"{name}.d", "--row", "5", "--col", "7", "--json", "--results", folder)
    found = json.loads(told(*where, *size))
    assert (found["status"], found["arch"], found["tmem"]["column"]) == ("measured", "sm_103", 127 - 7)
    assert found["agrees"] == []
    assert found["differs"][0]["tmem"][0]["column"] == 7
    assert found["source"].startswith("measured on sm_103: live on emulated tensor core")
    of_a = json.loads(told("where", f"{name}.a", "--row", "5", "--col", "7", "--json", "--results", folder))
    assert (of_a["status"], len(of_a["agrees"]), "differs" in of_a) == ("measured", 1, False)
    for other in ((*where, "--n", "256"), (*where, *size, "--arch", "sm_100"), where[:-2] + size):
        assert json.loads(told(*other))["status"] == "documented"
    assert "measured on sm_103" in told(*where[:6], "--results", folder, *size)
    cell = told("where", f"{name}.d", "--lane", 5, "--column", 120, *size, "--results", folder, "--json")
    assert (json.loads(cell)["row"], json.loads(cell)["col"]) == (5, 7)


def test_show_and_trace_say_it(folder):
    name = "tcgen05.mma.cta_group::1.kind::f16"
    words = " ".join(told("show", f"{name}.d", "--n", "128", "--results", folder).split())
    assert "measured on sm_103: live on emulated tensor core" in words
    assert "differs in PTX ISA 9.1" in words
    assert "col = 127 - column" in words or "col = " in words
    plain = json.loads(told("show", f"{name}.d", "--n", "128", "--results", folder, "--json"))
    assert (plain["status"], plain["arch"]) == ("measured", "sm_103")
    traced = ("trace", name, "--n", "128", "--row", "5", "--col", "7", "--ld", "32x32b.x32", "--results", folder)
    found = json.loads(told(*traced, "--json"))
    assert (found["status"], found["d"][0]["column"], found["loaded"]["column_base"]) == ("measured", 120, 96)
    both = json.loads(told(*traced, "--a-in", "tensor", "--json"))
    assert both["status"] == "measured"
    assert "cells measured on sm_103" in " ".join(told(*traced).split())
    paired = json.loads(told("where", "tcgen05.mma.cta_group::2.kind::f16.d", "--m", 128, "--n", 128, "--row", 70,
                             "--col", 100, "--results", folder, "--json"))  # fmt: skip
    assert paired["tmem"] == {"cta": 1, "lane": 6, "column": 27}
    copied = told("show", "tcgen05.cp.128x128b.memory", "--results", folder)
    assert "also documented by PTX ISA" in " ".join(copied.split())


def test_a_layout_that_nobody_states_is_answered_once_it_is_measured(tmp_path):
    id_ = "tcgen05.mma.ws.cta_group::1.kind::tf32.a.m32n64"
    core = Scattered({}, name="sm_103", seed=1)
    asked = Wanted(m=32, layers=layers(tmp_path))
    with pytest.raises(Exception, match="state no layout of A"):
        placed(operand(id_.removesuffix(".m32n64")), asked)
    run(KIND, core, tmp_path, [id_])
    answer = placed(operand(id_.removesuffix(".m32n64")), Wanted(m=32, layers=layers(tmp_path)))
    assert answer.status == "measured"
    first = core.in_tensor_memory(ALL[id_].sized.row, "a", replace(ALL[id_].sized, a_in_tensor=False))[4, 3]
    assert {(c.cta, c.lane, 32 * c.column + c.bit) for c in answer.places(4, 3)} == set(map(tuple, first.tolist()))


@pytest.fixture
def gpu(monkeypatch, tmp_path):
    """`tcprobe run` on a GPU with tensor memory."""
    worker = (sys.executable, str(HERE / "emulated_worker.py"), "fine", "", "", "TensorMemoryCore")
    monkeypatch.setattr("tcprobe.run.process.COMMAND", worker)
    return lambda *arguments, code=0: told("run", *arguments, "--results", tmp_path, code=code)


@pytest.mark.full
def test_one_run_makes_tables_and_places(gpu, tmp_path):
    """Of what it is asked for; again it keeps them, and answers, pages and merging take them."""
    asked = ("tcgen05.ld.16x64b", "tcgen05.cp.32x128b", "tcgen05.st.32x32b.x4.a")
    tables, found = map(json.loads, gpu(*asked, "--json").splitlines())
    ids = {f"tcgen05.ld.16x64b{repeated}" for repeated in ("", *(f".x{1 << j}" for j in range(8)))}
    assert {one["id"] for one in tables["experiments"]} == ids | {"tcgen05.st.32x32b.x4"}
    assert (found["kind"], list(found["findings"])) == (KIND, ["tcgen05.cp.32x128b.memory.warpx4"])
    schema = json.loads((HERE.parent / "docs" / "schema.json").read_text())
    for printed in (tables, found):
        assert {one["status"] for one in printed["experiments"]} == {"measured"}
        jsonschema.validate(printed, schema | {"$ref": "#/$defs/run"})
    assert [json.loads(line)["kept"] for line in gpu(*asked, "--json").splitlines()] == [10, 1]
    shown = told("show", "tcgen05.ld.16x64b.x8.d", "--why", "--results", tmp_path)
    assert "tcgen05.ld.16x64b.x8.d on sm_103, measured live" in shown
    assert json.loads(told("show", "tcgen05.ld.16x64b.x8.d", "--json", "--results", tmp_path))["references"]
    assert "confirmed" in told("compare", "tcgen05.ld.16x64b.d", "--results", tmp_path)
    told("pages", "--results", tmp_path)
    page = (tmp_path / "tensor_memory.md").read_text()
    assert "| sm_103 | 1 | 1 | - |" in page
    assert "None of this is measured" not in page
    merged = told("merge", tmp_path, "--contributor", "me", "--results", tmp_path / "merged")
    assert "11 measurements added" in merged
    assert "measured on sm_103" in told("show", "tcgen05.cp.32x128b.memory", "--results", tmp_path / "merged")


def test_a_family_is_a_kind_of_finding_too(gpu):
    words = gpu("--family", KIND, "tcgen05.cp.4*", "tcgen05.cp.64*")
    assert "measured    3  (3 tensor_memory)" in words
    assert "places of 3 operands of 2 forms in tensor memory; saved in" in words
    assert "not a subject of tensor_memory" in gpu("--family", KIND, "wgmma*", code=2)


def test_what_k_96_leaves_open_is_said():
    """Three scales from ID 1 are in figures, and not in the descriptor; six are refused until they are measured."""
    name = "tcgen05.mma.cta_group::2.kind::mxf4nvf4.k96.scale_a"
    asked = ("where", name, "--row", "3", "--col", "1", "--scale-vec")
    one, other = (json.loads(told(*asked, "3", "--selector", str(n), "--json")) for n in (0, 1))
    assert "IDs 0 and 2 only" in other["source"]
    assert "IDs" not in one["source"]
    assert other["bit"] == one["bit"] + 8
    assert "no text says where the rest of them is" in " ".join(told(*asked, "6", code=2).split())
    subjects = {subject(id_) for id_ in ALL if id_.startswith(name)}
    assert {(said.vector, said.selector) for said in subjects} == {(v, s) for v in (3, 6) for s in (0, 2)}


def test_doctor_says_how_many_would_be_new():
    count = sum(one.target.on(arch("sm_103")) is not None for one in ALL.values())
    assert f"and {count} places of operands in tensor memory that nobody measured live" in new_words(arch("sm_103"))
    assert "tensor memory" not in new_words(arch("sm_90"))


def test_a_run_without_a_family_makes_them_too():
    every = {one.id for one in select(())}
    assert set(ALL) < every
    forms = [one.id for one in select(("tcgen05.mma.cta_group::1.kind::tf32",))]
    assert forms
    assert {subject(id_).form for id_ in forms} == {"tcgen05.mma.cta_group::1.kind::tf32"}
    assert {one.id for one in select((), "tcgen05")} > set(ALL)
    assert not set(ALL) & {one.id for one in select((), "wgmma")}
    copies = {id_ for id_ in ALL if id_.startswith("tcgen05.cp.")}
    assert {one.id for one in select(("tcgen05.cp*",))} == copies
    loads = {one.id for one in select(("tcgen05.*",))}
    assert loads > {*ALL, "tcgen05.ld.32x32b", "tcgen05.st.16x256b.x32", "tcgen05.ld.red.16x32bx2.x8"}


WRONG = {
    "another size": lambda body: setattr(body, "rows", 32),
    "a place missing": lambda body: body.runs.pop(),
    "a place too much": lambda body: body.runs.append((64, 0, 1, 0, 0, 0, 0)),
    "another CTA": lambda body: body.runs.append((0, 0, 1, 1, 0, 0, 0)),
    "beyond the last column": lambda body: body.runs.append((0, 0, 1, 0, 0, 512 * 32, 0)),
    "beyond the last lane": lambda body: body.runs.append((0, 0, 1, 0, 128, 0, 0)),
    "two in one": lambda body: body.runs.__setitem__(1, (1, 0, 64, 0, 0, 0, 32)),
    "endless": lambda body: body.runs.extend([(0, 0, 16000, 0, 0, 0, 0)] * 60),
}


@pytest.mark.parametrize("how", WRONG)
def test_what_cannot_be_is_not_taken(how):
    experiment = ALL[D]
    one = found(experiment, machine(experiment))
    body = kinds.shaped(KIND, one.plain)
    WRONG[how](body)
    with pytest.raises(DataError):
        kinds.check(replace(one, body=body))


@pytest.mark.parametrize(
    "text",
    [
        D.replace("m64", "m96"),
        D.replace("kind::f16", "kind::f17"),
        D.replace("m64", "m064"),
        "tcgen05.cp.64x128b.memory.warpx4",
        "tcgen05.ld.32x32b.d.m64n64",
        "mma.m16n8k16.d.m64n64",
        D.replace(".f32", ".s32"),
    ],
)
def test_subjects_that_are_none(text):
    experiment = ALL[D]
    one = found(experiment, machine(experiment))
    with pytest.raises(DataError):
        kinds.check(replace(one, subject=text))


def test_an_arch_without_tensor_memory_has_none():
    one = found(ALL[D], machine(ALL[D]))
    with pytest.raises(DataError, match=r"sm_90 has no .* in tensor memory"):
        kinds.check(replace(one, arch="sm_90"))
