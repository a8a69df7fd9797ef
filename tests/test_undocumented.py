"""Illegal metadata and undocumented selectors: decoded on an emulated tensor core, saved, shown; nothing of a GPU."""

import copy
import json
import random

import numpy as np
import pytest
from bench import TensorCore, concluded, document, save
from click.testing import CliRunner
from sparse_layouts import KINDS, SPARSE, layouts

from tcprobe.ask import undocumented as asked
from tcprobe.cli import main
from tcprobe.errors import DataError, ProbeError, UnmeasuredError
from tcprobe.isa.instruction import sparsity
from tcprobe.layout.table import selected
from tcprobe.pages import overview
from tcprobe.probes import dialogues
from tcprobe.probes import sparse_undocumented as probe
from tcprobe.run.emulator import Emulator
from tcprobe.store import findings
from tcprobe.store.choose import alone
from tcprobe.store.kinds import to_body
from tcprobe.store.results import Results, published


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
    found = probe.decode_nibbles(row, by_operand(row, tables), emulated(row, tables, probe.nibble_launch(row)))
    if rule.fields == 1:
        assert found == [[[value >> 3]] for value in range(16)]
    else:
        assert found == [[[value & 3], [value >> 2]] for value in range(16)]


def test_what_is_no_single_position_is_no_answer():
    row = SPARSE[KINDS["f16"]]
    tables = layouts(row, 5)
    raw = emulated(row, tables, probe.nibble_launch(row)).copy()
    words = raw.view(np.uint32).reshape(16, 1 + row.fragment("a").slots, 32, 2)
    words[0] = 0
    words[5, 7, 3, 1] |= 1 << 31
    words[6, 1:] = np.roll(words[6, 1:], 1, axis=0)
    found = probe.decode_nibbles(row, by_operand(row, tables), raw)
    assert found[0] == [[], []]
    assert None in found[5]
    assert found[6] == [None, None]
    assert found[7] == [[3], [1]]


@pytest.mark.full
def test_a_selector_beyond_is_told_by_the_lanes_that_count():
    row = SPARSE[KINDS["nibbles"]]
    assert probe.undocumented_selectors(row) == [2, 3]
    tables = layouts(row, 5)
    e = tables[row.metadata.id]
    known = [e.selection(0), e.selection(1)]
    cells = list(range(e.points // 2))
    random.Random(3).shuffle(cells)
    own = known[0].with_values({n: tuple(v[j] for j in cells) for n, v in known[0].values.items()})
    more = tables | {row.metadata.id: selected([*known, known[1], own])}
    for number, wanted in ((2, 1), (3, None)):
        raw = emulated(row, more, probe.selector_launch(row, number))
        assert probe.decode_selected(row, by_operand(row, tables), raw, number) == wanted
    raw = raw.copy()
    raw[100:] ^= 1
    with pytest.raises(ProbeError):
        probe.decode_selected(row, by_operand(row, tables), raw, 3)


FREE = [[[value & 3], [value >> 2]] for value in range(16)]
TF32 = [[[1] if value == 14 else [0] if value == 4 else None if value == 9 else []] for value in range(16)]
WIDE = KINDS["wide f16"]


def bodies():
    """By subject, as plain data: made up, of the right form."""
    return {
        WIDE: {"nibbles": [list(fields) for fields in FREE]},
        f"{WIDE}.selector2": {"selector": {"outcome": "fault", "words": "illegal", "as": None}},
        f"{WIDE}.selector3": {"selector": {"outcome": "runs", "words": "", "as": 1}},
        KINDS["tf32"]: {"nibbles": TF32},
    }


def write(folder, found):
    save(folder, "undocumented", {subject: to_body("undocumented", body) for subject, body in found.items()})


def test_a_finding_is_saved_read_and_told(tmp_path):
    write(tmp_path, bodies())
    results = Results(tmp_path)
    wide, narrow = (SPARSE[KINDS[kind]].metadata for kind in ("wide f16", "tf32"))
    found = asked.beyond(wide, "sm_90", alone(results))
    text = "\n".join(found.lines)
    assert "0x0 0x1 0x2 0x3 0x5 0x6 0x7 0xa 0xb 0xf) act as two free indices of 2 bits" in text
    assert "selector 2, undocumented: accepted by the compiler, but the GPU faults (illegal)" in text
    assert "selector 3, undocumented: accepted, reads the lanes of selector 1" in text
    assert found.to_json()["selectors"]["3"]["as"] == 1
    text = "\n".join(asked.beyond(narrow, "sm_90", alone(results)).lines)
    assert "multiplies nothing" in text
    assert "0x9: no single product" in text
    assert asked.beyond(SPARSE[KINDS["f16"]].metadata, "sm_90", alone(results)) is None
    assert asked.beyond(wide, "sm_80", alone(results)) is None


def test_the_page_has_every_form(tmp_path):
    write(tmp_path, bodies())
    lines = "\n".join(overview.undocumented_page(Results(tmp_path)))
    assert all(f"`{KINDS[kind]}`" in lines for kind in ("wide f16", "tf32"))


def spoilt(change):
    """All bodies, after a change."""
    found = bodies()
    change(found)
    return found


OUTCOME = {"outcome": "runs", "words": "", "as": None}
SPOILT = [
    lambda f: f[WIDE]["nibbles"].pop(),
    lambda f: f[WIDE]["nibbles"].__setitem__(0, [[0]]),
    lambda f: f[WIDE]["nibbles"].__setitem__(0, [[0], [4]]),
    lambda f: f[WIDE]["nibbles"].__setitem__(0, [[True], [0]]),
    lambda f: f.update({f"{WIDE}.selector1": {"selector": OUTCOME}}),
    lambda f: f[f"{WIDE}.selector2"]["selector"].update(outcome="fine"),
    lambda f: f[f"{WIDE}.selector2"]["selector"].update({"as": 1}),
    lambda f: f[f"{WIDE}.selector3"]["selector"].update({"as": 2}),
    lambda f: f[f"{WIDE}.selector3"]["selector"].pop("words"),
    lambda f: f[f"{WIDE}.selector3"]["selector"].update({"as": True}),
    lambda f: f.update({f"{WIDE}.selector 3": f.pop(f"{WIDE}.selector3")}),
    lambda f: f.update({f"{WIDE}.selector99": f.pop(f"{WIDE}.selector3")}),
    lambda f: f.update({f"{WIDE}.selector3": {"selector": "runs"}}),
    lambda f: f.update({f"{WIDE}.selector3": {"nibbles": FREE}}),
    lambda f: f.update({f"{WIDE}.selector03": f.pop(f"{WIDE}.selector3")}),
    lambda f: f.update({WIDE: {"selector": OUTCOME}}),
    lambda f: f[WIDE].update(selector=OUTCOME),
    lambda f: f[WIDE].update(nibbles="0123456789abcdef"),
    lambda f: f[WIDE].update(nibbles=16),
    lambda f: f.update({WIDE: {}}),
    lambda f: f.update({"mma.m16n8k8.row.col.f32.f16.f16.f32": f[WIDE]}),  # dense
]


@pytest.mark.parametrize("change", SPOILT)
def test_what_can_be_no_finding_is_refused(change, tmp_path):
    with pytest.raises(DataError):
        write(tmp_path, spoilt(change))


EARLIER = {
    "forms": {
        WIDE: {
            "nibbles": FREE,
            "selectors": {
                "2": {"outcome": "fault", "words": "illegal", "as": None},
                "3": {"outcome": "runs", "words": "", "as": 1},
            },
        },
        KINDS["tf32"]: {"nibbles": TF32, "selectors": {}},
    }
}


def test_an_earlier_document_says_the_same(tmp_path):
    document(tmp_path, "undocumented", EARLIER)
    found = findings.every(Results(tmp_path), "undocumented", "sm_90")
    assert {one.subject: one.plain for one in found} == bodies()
    other = copy.deepcopy(EARLIER)
    other["forms"][WIDE]["selectors"]["99"] = OUTCOME
    document(tmp_path, "undocumented", other)
    with pytest.raises(DataError, match=r"undocumented\.json"):
        list(findings.every(Results(tmp_path), "undocumented", "sm_90"))


@pytest.mark.parametrize("event", ["refused", "fault", "hangs", "unsound"])
def test_that_a_selector_does_not_run_is_a_finding(event, tmp_path):
    experiment = dialogues("undocumented")[f"{WIDE}.selector3"]
    body = experiment.instead(event, "Error:\nno such selector" + "." * 1000)
    save(tmp_path, "undocumented", {experiment.id: body})
    assert body.selector.outcome == event
    assert body.selector.words.startswith("Error:\\nno such selector")


def test_values_and_selectors_of_the_published_tensor_core():
    machine = TensorCore()
    assert concluded(dialogues("undocumented")[WIDE], machine).nibbles == FREE
    for number in (2, 3):
        body = concluded(dialogues("undocumented")[f"{WIDE}.selector{number}"], machine)
        assert (body.selector.outcome, body.selector.same) == ("runs", 1)


def test_without_tables_there_is_nothing_to_say():
    with pytest.raises(UnmeasuredError, match="is not measured: no table of a, b"):
        concluded(dialogues("undocumented")[f"{WIDE}.selector3"], TensorCore(), known=lambda fragment: None)


def test_show_tells_it(tmp_path):
    e = SPARSE[KINDS["wide f16"]].metadata
    write(tmp_path, bodies())
    done = CliRunner().invoke(main, ["show", e.id, "--selector", "1", "--results", str(tmp_path)])
    assert "free indices" in done.output, done.output
    done = CliRunner().invoke(main, ["show", e.id, "--selector", "1", "--json", "--results", str(tmp_path)])
    assert json.loads(done.stdout)["undocumented"]["nibbles"][5] == [[1], [1]]


def test_the_published_finding_is_that_of_the_measured_forms():
    found = {one.metadata.experiment: one for one in asked.everything("sm_90", alone(published()))}
    sparse = [e.id for e in dialogues("undocumented").values() if isinstance(e, probe.NibblesExperiment)]
    saved = (published().measurement("sm_90", "live", id_) for id_ in sparse)
    assert set(found) == {m.experiment for m in saved if m and m.status == "measured"}
    for name, form in found.items():
        row = SPARSE[name]
        rule = sparsity(row.metadata)
        for value in rule.legal:  # the tables say the same
            assert form.nibbles[value] == [[rule.read(value, field)] for field in range(rule.fields)]
        assert set(form.selectors) == set(probe.undocumented_selectors(row))
