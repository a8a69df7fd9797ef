"""ldmatrix, stmatrix and movmatrix as commands: runs on an emulated GPU, and what is answered, written and refused."""

import json
import sys
from pathlib import Path

import emulation
import pytest
from command import tcprobe

from tcprobe.isa.arch import WARP
from tcprobe.probes import experiments
from tcprobe.probes.moves import FAMILIES
from tcprobe.run import runner
from tcprobe.run.backend import Worker
from tcprobe.run.campaign import select
from tcprobe.store.finding import MEMORY, Measurement
from tcprobe.store.results import Results

MOVES = [e for e in experiments().values() if e.group in FAMILIES]
EMULATED = (sys.executable, str(Path(__file__).parent / "emulated_worker.py"))


@pytest.mark.parametrize(
    ("family", "mode", "limit"),
    [*((family, "fault", 120) for family in FAMILIES), ("ldmatrix", "hang", 8), ("stmatrix", "die", 120)],
)
@pytest.mark.sampled(6)
def test_a_fault_costs_its_own_experiment_only(tmp_path, family, mode, limit):
    culprit = next(e.id for e in MOVES if e.group == family)
    chosen = select((f"{family}.m8n8*", "wmma.m8n8k4.a.row.f64"))
    results = Results(tmp_path)
    with runner.Session(Worker((*EMULATED, mode, culprit), limit)) as session:
        found = list(runner.measure(session, session.devices[0], chosen, results))
    statuses = {m.experiment: m.status for m in found if isinstance(m, Measurement)}
    assert statuses.pop(culprit) == "failed"
    assert set(statuses.values()) == {"measured"}
    assert set(statuses) | {culprit} == {e.id for e in chosen}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """The emulator's moves as `tcprobe run` saves them."""
    folder = tmp_path_factory.mktemp("moves")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tcprobe.run.backend.COMMAND", (*EMULATED, "fine"))
        text = tcprobe("run", *(f"{family}.*" for family in FAMILIES), "--results", folder).stdout
    assert "measured   16  (9 ldmatrix, 1 movmatrix, 6 stmatrix)" in text
    assert "refused    15  (12 ldmatrix, 3 stmatrix)" in text
    return folder


def shown(root, name, *more, on="sm_90"):
    lines = tcprobe("show", name, "--results", root, "--arch", on, "--json", *more).stdout.splitlines()
    return [json.loads(line) for line in lines]


@pytest.mark.full
def test_show_json_of_a_move(root):
    tables, _ = emulation.tables(seed=7)
    address, d = shown(root, "ldmatrix.m8n8.x2.shared.b16", "--only")
    assert (address["family"], address["instruction"]) == ("ldmatrix", "ldmatrix.sync.aligned.m8n8.x2.shared.b16")
    assert (address["operand"], d["operand"]) == ("address", "d")
    assert address["shape"] == {"m": 8, "n": 8, "k": None}
    rows = tables[address["id"]].values["row"]
    assert address["table"] == [None if row is None else [[row]] for row in rows]
    assert address["table"].count(None) == 16
    cells = tables[d["id"]].cells
    assert d["table"] == [[list(cells[4 * lane + i]) for i in range(4)] for lane in range(WARP)]
    assert d["unread"] is None
    assert d["provenance"]["method"] == "emulated"
    assert d["numbering"] == MEMORY


def test_documented_moves_have_no_method(root):
    (entry,) = shown(root, "ldmatrix.m8n16.x4.shared.b8x16.b6x16_p32.d", on="sm_100")
    assert entry["provenance"]["method"] is None
    assert entry["table"][5][3] == [1, 7]


def test_show_draws_addresses_as_lanes(root, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    text = tcprobe("show", "ldmatrix.m8n8.x1.shared.b16.address", "--arch", "sm_80").stdout
    lane, row = (line.split() for line in text.splitlines() if line.startswith(("  lane", "  row  ")))
    assert lane == ["lane", *map(str, range(WARP))]
    assert row == ["row", *map(str, range(8)), *"-" * 24]
    assert "operand ADDRESS, 8 rows of u32" in text


def test_where_answers_for_registers_and_for_addresses(root):
    name = "stmatrix.m8n8.x4.trans.shared.b16"
    found = json.loads(tcprobe("where", f"{name}.address", "--row", "9", "--arch", "sm_90", "--json").stdout)
    assert [(h["lane"], h["row"], h["col"]) for h in found["holders"]] == [(9, 9, None)]
    text = tcprobe("where", f"{name}.address", "--lane", "9", "--arch", "sm_90").stdout
    assert text.startswith("lane 9 i 0 (register 0, bits 0..31): ADDRESS[9]\n")
    text = tcprobe("where", f"{name}.a", "--row", "9", "--col", "2", "--arch", "sm_90").stdout
    assert text.startswith("A[9][2]: lane 8 i 3 (register 1, bits 16..31)\n")


def test_list_has_the_families():
    for family, count in zip(FAMILIES, (21, 9, 1), strict=True):
        entries = json.loads(tcprobe("list", "--json", "--family", family).stdout)
        assert len({entry["instruction"] for entry in entries}) == count
        assert len(entries) == 2 * count
        assert {entry["operand"] for entry in entries} == set(
            {"ldmatrix": ("d", "address"), "stmatrix": ("a", "address"), "movmatrix": ("a", "d")}[family]
        )


def test_a_csv_of_ldmatrix_is_compared_by_slots(root, tmp_path):
    """An exchange of rows is not a renumbering where addresses number them."""
    path, name = tmp_path / "d.csv", "ldmatrix.m8n8.x1.shared.b16.d"
    path.write_text(tcprobe("emit", name, "--results", root, "--arch", "sm_90", "--to", "csv").stdout)
    assert "64 of 64" in tcprobe("compare", path, name, "--results", root, "--arch", "sm_90").stdout
    head, *lines = path.read_text().splitlines()
    other = [",".join((lane, i, str(7 - int(row)), col)) for lane, i, row, col in (line.split(",") for line in lines)]
    path.write_text("\n".join([head, *other]))
    wrong = tcprobe("compare", path, name, "--results", root, "--arch", "sm_90", code=1).stdout
    assert "0 of 64" in wrong
    assert "renumbering" not in wrong


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["trace", "ldmatrix.m8n8.x4.shared.b16", "--row", "0", "--col", "0"], "x4.shared.b16 is not a multiply"),
        (["convert", "ldmatrix.m8n8.x4.shared.b16.address", "mma.m16n8k8.row.col.f32.f16.f16.f32.a"], "not a multiply"),
        (["convert", "mma.m16n8k16.row.col.f32.f16.f16.f32.d", "stmatrix.m8n8.x4.shared.b16.a"], "is not a multiply"),
        (["verify", "movmatrix.*"], "movmatrix.m8n8.trans.b16 is not a multiply"),
        (["emit", "ldmatrix.m8n8.x4.shared.b16.address", "--to", "csv"], "csv cannot express the address"),
        (["emit", "movmatrix.m8n8.trans.b16", "--to", "tinygrad", "--arch", "sm_90"], "is not a multiply"),
        (["where", "ldmatrix.m8n8.x2.shared.b16.address", "--row", "16"], "row 16 is outside 0 to 15"),
        (["show", "ldmatrix.m16n16.x1.trans.shared.b8.d", "--arch", "sm_90"], "no table of"),
        (["list", "--family", "ldmatric"], "no family is called 'ldmatric'; known: wmma, mma, mma.sp, mma.block_scale"),
    ],
)
def test_what_moves_do_not_have_is_said(arguments, words):
    assert words in tcprobe(*arguments, code=2).stderr


def test_markdown_and_json_write_addresses():
    text = tcprobe("emit", "ldmatrix.m8n8.x1.shared.b16.address", "--to", "markdown", "--arch", "sm_80").stdout
    assert "| 7 | 7 |" in text
    assert "| 8 | unused |" in text
    (entry,) = json.loads(tcprobe("emit", "ldmatrix.m8n8.x1.shared.b16.address", "--to", "json").stdout)
    assert entry["table"][6:9] == [[[6]], [[7]], None]
