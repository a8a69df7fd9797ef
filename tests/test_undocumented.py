"""Illegal metadata and undocumented selectors: decoded on an emulated tensor core, saved, shown; nothing of a GPU."""

import json
import random

import numpy as np
import pytest
from click.testing import CliRunner
from test_sparse import KINDS, SPARSE, layouts

from tcprobe.ask import undocumented as asked
from tcprobe.cli import main
from tcprobe.errors import DataError, ProbeError
from tcprobe.isa.sparsity import sparsity
from tcprobe.layout.table import selected
from tcprobe.pages import overview
from tcprobe.probes import sparse_undocumented as probe
from tcprobe.run import undocumented as run
from tcprobe.run.backend import BackendFaultError
from tcprobe.run.emulator import Emulator
from tcprobe.store.choose import alone
from tcprobe.store.finding import PROVENANCE
from tcprobe.store.results import Results, published
from tcprobe.store.surveys import UNDOCUMENTED

SAID = dict.fromkeys(PROVENANCE, "x")


def emulated(row, tables, launch):
    return Emulator(tables, name="sm_120").run([launch])[0]


def by_operand(row, tables):
    return {f.operand: tables[f.id] for f in row.fragments}


@pytest.mark.parametrize("kind", ["tf32", "f16", "bytes", "nibbles", "wide f16"])
def test_values_are_decoded_on_any_layout(kind):
    """The emulated core takes both halves of four bits as free indices, of tf32 the top bit."""
    row = SPARSE[KINDS[kind]]
    tables = layouts(row, 5)
    rule = sparsity(row.metadata)
    found = probe.decode_nibbles(row, by_operand(row, tables), emulated(row, tables, probe.nibbles(row)))
    if rule.fields == 1:
        assert found == [[[value >> 3]] for value in range(16)]
    else:
        assert found == [[[value & 3], [value >> 2]] for value in range(16)]


def test_what_is_no_single_position_is_no_answer():
    row = SPARSE[KINDS["f16"]]
    tables = layouts(row, 5)
    raw = emulated(row, tables, probe.nibbles(row)).copy()
    words = raw.view(np.uint32).reshape(16, 1 + row.fragment("a").slots, 32, 2)
    words[0] = 0
    words[5, 7, 3, 1] |= 1 << 31
    words[6, 1:] = np.roll(words[6, 1:], 1, axis=0)
    found = probe.decode_nibbles(row, by_operand(row, tables), raw)
    assert found[0] == [[], []]
    assert None in found[5]
    assert found[6] == [None, None]
    assert found[7] == [[3], [1]]


def test_a_selector_beyond_is_told_by_the_lanes_that_count():
    row = SPARSE[KINDS["nibbles"]]
    assert probe.undocumented(row) == [2, 3]
    tables = layouts(row, 5)
    e = tables[row.metadata.id]
    known = [e.selection(0), e.selection(1)]
    cells = list(range(e.points // 2))
    random.Random(3).shuffle(cells)
    own = known[0].with_values({n: tuple(v[j] for j in cells) for n, v in known[0].values.items()})
    more = tables | {row.metadata.id: selected([*known, known[1], own])}
    for number, wanted in ((2, 1), (3, None)):
        raw = emulated(row, more, probe.selected(row, number))
        assert probe.decode_selected(row, by_operand(row, tables), raw, number) == wanted
    raw = raw.copy()
    raw[100:] ^= 1
    with pytest.raises(ProbeError):
        probe.decode_selected(row, by_operand(row, tables), raw, 3)


def finding():
    """Made up, of the right form."""
    free = [[[value & 3], [value >> 2]] for value in range(16)]
    outcome = {"2": {"outcome": "fault", "words": "illegal", "as": None},
               "3": {"outcome": "runs", "words": "", "as": 1}}  # fmt: skip
    tf32 = [[[1] if value == 14 else [0] if value == 4 else None if value == 9 else []] for value in range(16)]
    return {
        KINDS["wide f16"]: {"nibbles": free, "selectors": outcome},
        KINDS["tf32"]: {"nibbles": tf32, "selectors": {}},
    }


def test_a_finding_is_saved_read_and_told(tmp_path):
    results = Results(tmp_path)
    UNDOCUMENTED.write(results, "sm_90", asked.document("sm_90", SAID, finding()))
    wide, narrow = (SPARSE[KINDS[kind]].metadata for kind in ("wide f16", "tf32"))
    found = asked.beyond(wide, "sm_90", alone(results))
    text = "\n".join(found.lines)
    assert "0x0 0x1 0x2 0x3 0x5 0x6 0x7 0xa 0xb 0xf) act as two free indices of 2 bits" in text
    assert "selector 2, undocumented: taken by the compiler, the GPU faults (illegal)" in text
    assert "selector 3, undocumented: taken, reads the lanes of selector 1" in text
    assert found.to_json()["selectors"]["3"]["as"] == 1
    text = "\n".join(asked.beyond(narrow, "sm_90", alone(results)).lines)
    assert "multiplies nothing" in text
    assert "0x9: no single product" in text
    assert asked.beyond(SPARSE[KINDS["f16"]].metadata, "sm_90", alone(results)) is None
    assert asked.beyond(wide, "sm_80", alone(results)) is None


def test_the_page_has_every_form(tmp_path):
    results = Results(tmp_path)
    (tmp_path / "sm_90" / "live").mkdir(parents=True)
    UNDOCUMENTED.write(results, "sm_90", asked.document("sm_90", SAID, finding()))
    lines = "\n".join(overview.undocumented.page(results))
    assert all(f"`{name}`" in lines for name in finding())


@pytest.mark.parametrize(
    "change",
    [
        lambda f: f["nibbles"].pop(),
        lambda f: f["nibbles"].__setitem__(0, [[0]]),
        lambda f: f["nibbles"].__setitem__(0, [[0], [4]]),
        lambda f: f["nibbles"].__setitem__(0, [[True], [0]]),
        lambda f: f["selectors"].__setitem__("1", {"outcome": "runs", "words": "", "as": None}),
        lambda f: f["selectors"]["2"].__setitem__("outcome", "fine"),
        lambda f: f["selectors"]["2"].__setitem__("as", 1),
        lambda f: f["selectors"]["3"].__setitem__("as", 2),
        lambda f: f["selectors"]["3"].pop("words"),
        lambda f: f["selectors"]["3"].__setitem__("as", True),
        lambda f: f["selectors"].__setitem__(" 3", f["selectors"].pop("3")),
        lambda f: f["selectors"].__setitem__("99", f["selectors"].pop("3")),
        lambda f: f["selectors"].__setitem__("3", "runs"),
        lambda f: f.__setitem__("nibbles", "0123456789abcdef"),
        lambda f: f.__setitem__("nibbles", 16),
        lambda f: f.pop("nibbles"),
    ],
)
def test_what_can_be_no_finding_is_refused(change):
    found = finding()
    change(found[KINDS["wide f16"]])
    with pytest.raises(DataError, match=r"undocumented\.json"):
        asked.document("sm_90", SAID, found)


def test_a_dense_multiply_has_none():
    dense = "mma.m16n8k8.row.col.f32.f16.f16.f32"
    with pytest.raises(DataError):
        asked.document("sm_90", SAID, {dense: finding()[KINDS["wide f16"]]})


class FaultyGpu:
    """A backend that refuses selector 3 and is lost on selector 2."""

    def open(self, index):
        pass

    def devices(self):
        from tcprobe.run.backend import Device

        return [Device(0, "H", "sm_90", "d", "c", "p")]

    def load(self, kernels):
        return {k.name: "Error:\nno such selector" for k in kernels if "selector3" in k.name}

    def run(self, launches):
        raise BackendFaultError("CUDA_ERROR_ILLEGAL_INSTRUCTION")


def test_a_selector_costs_its_own_process_only(monkeypatch):
    monkeypatch.setattr("tcprobe.run.gpu.Gpu", FaultyGpu)
    name = "mma.sp.m16n8k32.row.col.f32.f16.f16.f32"
    assert run.one(0, name, 2) == {"outcome": "fault", "words": "CUDA_ERROR_ILLEGAL_INSTRUCTION", "as": None}
    assert run.one(0, name, 3)["outcome"] == "refused"
    ended = run.apart(0, name, 2)  # without a GPU the process says so and ends
    assert ended["outcome"] in ("fault", "refused")


def test_a_whole_run_is_saved(monkeypatch, tmp_path):
    """The published tables on the emulator, for three forms; selector 3 is refused, 2 runs apart."""
    names = [KINDS[kind] for kind in ("f16", "wide f16", "tf32")]
    forms = {name: run.measured("sm_90")[name] for name in names}

    class Emulated(FaultyGpu):
        def run(self, launches):
            row, tables = forms[launches[0].kernel.op.instruction.id]
            return [emulated(row, {f.id: tables[f.operand] for f in row.fragments}, launch) for launch in launches]

    monkeypatch.setattr("tcprobe.run.gpu.Gpu", Emulated)
    monkeypatch.setattr(run, "measured", lambda _: forms)
    monkeypatch.setattr(run, "apart", lambda *case: {"outcome": "runs", "words": "", "as": 1})
    done = CliRunner().invoke(main, ["run", "--family", "undocumented", "--json", "--results", str(tmp_path)])
    assert done.exit_code == 0, done.output
    saved = asked.forms("sm_90", UNDOCUMENTED.read(Results(tmp_path), "sm_90"))
    assert saved == json.loads(done.output)["forms"]
    assert {name: {n: o["outcome"] for n, o in form["selectors"].items()} for name, form in saved.items()} == {
        names[0]: {}, names[1]: {"2": "runs", "3": "refused"}, names[2]: {}
    }  # fmt: skip
    assert saved[names[1]]["selectors"]["3"]["words"] == "Error:\\nno such selector"
    assert saved[names[0]]["nibbles"][7] == [[3], [1]]


def test_show_tells_it(tmp_path):
    e = SPARSE[KINDS["wide f16"]].metadata
    UNDOCUMENTED.write(Results(tmp_path), "sm_90", asked.document("sm_90", SAID, finding()))
    done = CliRunner().invoke(main, ["show", e.id, "--selector", "1", "--results", str(tmp_path)])
    assert "act as two free indices" in done.output, done.output
    done = CliRunner().invoke(main, ["show", e.id, "--selector", "1", "--json", "--results", str(tmp_path)])
    assert json.loads(done.stdout)["undocumented"]["nibbles"][5] == [[1], [1]]


def test_the_published_finding_is_that_of_the_measured_forms():
    results = published()
    found = asked.forms("sm_90", UNDOCUMENTED.read(results, "sm_90"))
    assert set(found) == set(run.measured("sm_90"))
    for name, form in found.items():
        row = SPARSE[name]
        rule = sparsity(row.metadata)
        for value in rule.legal:  # the tables say the same
            assert form["nibbles"][value] == [[rule.read(value, field)] for field in range(rule.fields)]
        assert set(map(int, form["selectors"])) == set(probe.undocumented(row))
