"""Probes of tcgen05.mma and tcgen05.cp: any places in tensor memory are found, spoilt answers are noticed.

Their code is assembled for every target."""

from dataclasses import replace

import machine_code
import numpy as np
import pytest
from bench import concluded, found
from hypothesis import given
from hypothesis import strategies as st
from sampling import examples
from tensor_cores import ALL, EVERY_KIND, Core, Scattered, machine

from tcprobe.errors import ProbeError
from tcprobe.isa import inventory
from tcprobe.isa.arch import ARCHS, arch
from tcprobe.layout.table import cell_runs, places_of_runs
from tcprobe.probes.experiment import kernels
from tcprobe.probes.slots import unpack
from tcprobe.probes.tensor_multiply_kernels import COLUMNS, FIRST, REGION, REGIONS
from tcprobe.sass.cubin import assemble
from tcprobe.store.kinds.tensor_memory import subject

SMALL = [id_ for id_ in ALL if ".d." not in id_ or "n64" in id_ or "n128.s32" in id_]


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
@pytest.mark.sampled(211)
def test_what_is_documented_is_measured_back(id_):
    """As `placed` says it, but for what nobody states: A of .ws with M = 32, six scales of K = 96."""
    experiment = ALL[id_]
    try:
        there = held_by(machine(experiment), experiment)
    except AssertionError as error:
        assert "source" in str(error) or "beyond a cell" in str(error)  # noqa: PT017
        return
    body = concluded(experiment, machine(experiment))
    assert body.held == there
    assert found(experiment, machine(experiment)).body == body


@pytest.mark.parametrize("id_", SMALL[::5])
@pytest.mark.sampled(41)
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
        there = super().in_tensor_memory(instruction, operand, said).copy()  # what is known of a form is shared
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
    assert places_of_runs(cell_runs(held)) == sorted(held)


def test_rows_are_runs():
    held = [(row, col, 0, row, 16 * col) for row in range(4) for col in range(16)]
    assert [(run.row, run.length, run.step) for run in cell_runs(held)] == [(row, 16, 16) for row in range(4)]


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
