"""The commands as a user meets them."""

import csv
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from command import tcprobe

from tcprobe.fit import fit
from tcprobe.isa import inventory
from tcprobe.isa.names import resolve
from tcprobe.store.results import Results, published

RESULTS = ["--results", str(published().root)]


def test_list_json_keeps_its_keys():
    entries = json.loads(tcprobe("list", "--json").stdout)
    shared = [one.id for one in resolve("*").shared]
    bare = [row.id for row in resolve("*").bare]
    assert [entry["id"] for entry in entries] == [*inventory.fragments(), *shared, *bare]
    for entry in entries:
        assert {"id", "family", "instruction", "shape", "operand", "layout", "type", "threads"} <= set(entry)
        assert {"elements", "rows", "cols", "min_arch"} <= set(entry)
        m, n, k = (entry["shape"][x] for x in "mnk")
        if entry["family"] in ("wmma", "mma", "mma.sp"):
            stored = k // 2 if entry["family"] == "mma.sp" else k
            sizes = {"a": (m, stored), "b": (k, n), "e": (m, stored)}
            assert (entry["rows"], entry["cols"]) == sizes.get(entry["operand"], (m, n))
        assert entry["layout"] in ("row", "col", None)
        together = 128 if entry["family"].startswith("wgmma") else 32
        assert entry["threads"] == (None if entry["id"] in bare else together)


def test_list_selects():
    assert len(json.loads(tcprobe("list", "--json", "--family", "wmma").stdout)) == 88
    volta = json.loads(tcprobe("list", "--json", "--arch", "sm_70").stdout)
    assert {e["min_arch"] for e in volta} == {"sm_70"}
    text = tcprobe("list", "wmma.m16n16k16.?.f32").stdout
    assert "wmma.m16n16k16.d.f32" in text
    assert "16 x 16" in text
    assert len(text.splitlines()) == 3


def test_show_json_has_table_formula_provenance_and_references():
    lines = tcprobe("show", "mma.m16n8k16.row.col.f32.f16.f16.f32", "--json", *RESULTS).stdout.splitlines()
    shown = [json.loads(line) for line in lines]
    assert [s["operand"] for s in shown] == ["a", "b", "c", "d"]
    for s in shown:
        assert s["arch"] == "sm_90"
        assert len(s["table"]) == 32
        assert {len(lane) for lane in s["table"]} == {s["elements"]}
        assert s["provenance"]["method"] == "live"
        assert s["provenance"]["device"] == "NVIDIA H200"
        assert {"driver", "cuda", "ptx", "tcprobe", "triples"} <= set(s["provenance"])
        verdicts = {r["name"]: r["verdict"] for r in s["references"]}
        assert verdicts == {"PTX ISA": "confirmed", "CuTe": "confirmed", "register-mapping": "not covered"}
    assert shown[3]["formula"] == {"row": "((i & 2) << 2) + (lane >> 2)", "col": "(i & 1) + ((lane & 3) << 1)"}
    assert shown[3]["bases"] == {"lane": [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], "register": [[0, 1], [8, 0]]}


def test_show_json_of_m8n8k4_says_the_product():
    shown = json.loads(tcprobe("show", "mma.m8n8k4.row.col.f32.f16.f16.f32.d", "--json", *RESULTS).stdout)
    assert shown["product"][4] == [1] * 8
    assert shown["formula"]["product"] == "(lane & 12) >> 2"


def test_show_draws_both_ways_and_names_copies_that_are_not_read():
    text = tcprobe("show", "wmma.m16n16k16.a.row.f16", "--full", *RESULTS).stdout
    assert "wmma.m16n16k16.a.col.f16" in text
    assert "2 holders" in text
    assert "never read by any of 8 measured multiplies: i = 8 to 15" in text
    assert "0:0,8" in text  # the holders of row 0, col 0
    assert "0,0..1" in text  # the elements of lane 0, register 0
    assert "NVIDIA H200" in text


def test_show_says_what_is_only_documented():
    name = "mma.m16n8k32.row.col.f32.e4m3.e4m3.f32.a"
    text = tcprobe("show", name, "--arch", "sm_89", *RESULTS).stdout
    assert "documented only, by PTX ISA, section 9.7.14.5.10; not measured on sm_89" in text
    assert "\nmeasured:" not in text
    shown = json.loads(tcprobe("show", name, "--arch", "sm_89", "--json", *RESULTS).stdout)
    assert shown["provenance"]["method"] is None
    assert shown["references"] == []
    measured = json.loads(tcprobe("show", name, "--json", *RESULTS).stdout)
    assert (measured["arch"], measured["table"]) == ("sm_90", shown["table"])


def test_show_takes_several_names_and_patterns():
    lines = tcprobe("show", "wmma.m16n16k16.?.f32", "wmma.m8n8k4.a.row.f64", "--arch", "all", "--json", *RESULTS)
    assert [json.loads(line)["id"] for line in lines.stdout.splitlines()][-1] == "wmma.m8n8k4.a.row.f64"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["show", "wmma.m16n16k16.x.f32"], 2, "Did you mean"),
        (["show", "mma.m16n8k16.f16.a", "--strict"], 2, "matches 10 fragments"),
        (["show", "wmma.m16n16k16.a.row.bf16", "--arch", "sm_75"], 2, "sm_75 refused it: Feature '.bf16' requires"),
        (["show", "wmma.m16n16k16.d.f32", "--arch", "sm_99"], 2, "unknown arch 'sm_99'; did you mean sm_90"),
        (["show", "kind::f8f6f4.f32.e2m1.e2m1.f32.a", "--arch", "sm_90"], 2, "refused it: Instruction 'mma with"),
        (["list", "nonsense"], 2, "no fragment or instruction is called 'nonsense'"),
        (["show"], 2, "Missing argument"),
        (["run", "--arch", "sm_1"], 2, "unknown arch"),
        (["fit", "nowhere"], 2, "no such file or folder"),
        (["compare", "wmma.m16n16k16.d.f32", "--results", "nowhere"], 2, "no such folder"),
        (["pages", "--results", "nowhere"], 2, "no measurements"),
        (["why-not", "wmma.m16n16k16.d.f32"], 2, "--arch"),
    ],
)
def test_mistakes_get_a_message_and_an_exit_code(arguments, code, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert words in tcprobe(*arguments, code=code).stderr
    assert not list(tmp_path.iterdir())


def test_why_not():
    kind = "mma.m16n8k32.row.col.kind::f8f6f4.f32.e2m1.e2m1.f32.a"
    text = tcprobe("why-not", kind, "--arch", "sm_90", *RESULTS).stdout
    assert "target sm_120a" in text
    assert "not supported on .target 'sm_90'" in text
    assert "prevents" in tcprobe("why-not", "wmma.m16n16k16.d.f32", "--arch", "sm_80", *RESULTS).stdout


@pytest.mark.full
def test_fit_prints_c_sympy_and_latex():
    folder = str(published().root)
    c = tcprobe("fit", folder).stdout
    assert "((i & 2) << 2) + ((lane & 28) >> 2)" in c
    assert len([line for line in c.splitlines() if "linear" in line]) == len(published().layouts())
    layout = next((published().root / "layouts").glob("*.json"))
    assert "BitAnd(" in tcprobe("fit", "--sympy", layout).stdout
    assert r"\mathbin{\&}" in tcprobe("fit", "--latex", layout).stdout
    for line in tcprobe("fit", "--json", folder).stdout.splitlines():
        data = json.loads(line)
        found = fit(published().layout(data["layout_id"]))
        assert data["formula"] == {n: str(f) for n, f in found.formulas.items()}


def write_csv(path, table, change=None):
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["lane", "i", "row", "col"])
        for slot, (row, col) in enumerate(table.cells):
            lane, i = divmod(slot, table.elements)
            writer.writerow([lane, i, row + (change == slot), col])
    return path


def test_fit_and_compare_take_a_csv(tmp_path):
    fragment = inventory.fragments()["wmma.m16n16k16.d.f32"]
    table = published().table("sm_90", "live", fragment)
    right = write_csv(tmp_path / "right.csv", table)
    assert "(i & 1) + ((i & 4) << 1) + ((lane & 3) << 1)" in tcprobe("fit", right).stdout
    assert "256 of 256" in tcprobe("compare", right, fragment.id, *RESULTS).stdout
    wrong = write_csv(tmp_path / "wrong.csv", table, change=9)
    found = tcprobe("compare", wrong, fragment.id, *RESULTS, code=1).stdout
    assert "255 of 256" in found
    assert "lane 1 i 1: stated [1, 3], measured [0, 3]" in found
    assert "not linear: 1 slots contradict: lane 1 i 1" in tcprobe("fit", wrong).stdout
    assert "fragment" in tcprobe("compare", right, *RESULTS, code=2).stderr


@pytest.mark.full
def test_compare_counts_shows_errata_and_succeeds():
    text = tcprobe("compare", *RESULTS).stdout
    assert "known erratum of PTX ISA, section 9.7.14.5.13: the printed column formula for i < 64" in text
    assert "errata" in text
    assert all(f"{name}, against" in text for name in published().archs())
    assert "live against sass: 88 fragments have the same table, 0 another" in text
    verdicts = [json.loads(line) for line in tcprobe("compare", "--json", *RESULTS).stdout.splitlines()]
    assert {v["verdict"] for v in verdicts} == {"confirmed", "differs", "not covered"}
    assert all("erratum" in v for v in verdicts if v["verdict"] == "differs")


@pytest.mark.full
def test_pages_writes_and_checks(tmp_path, sample):
    """Of a few archs, or of all that is published."""
    import shutil

    archs = {path.name for path in published().root.glob("sm_*")}
    left_out = archs - set(sample(sorted(archs), 9))
    shutil.copytree(published().root, tmp_path / "r", ignore=shutil.ignore_patterns(*left_out))
    (tmp_path / "r" / "README.md").write_text("old")
    assert "stale" in tcprobe("pages", "--check", "--results", tmp_path / "r", code=1).stdout
    assert "written" in tcprobe("pages", "--results", tmp_path / "r").stdout
    tcprobe("pages", "--check", "--results", tmp_path / "r")


def test_damaged_results_are_left_out_or_refused_with_exit_code_4(tmp_path):
    import shutil

    path = published().path("sm_90", "live", "wmma.m16n16k16.accumulator.f32")
    broken = tmp_path / "r" / path.relative_to(published().root)
    shutil.copytree(path.parent, broken.parent)
    broken.write_text(path.read_text().replace("live", "Live", 1))
    found = tcprobe("show", "wmma.m16n16k16.d.f32", "--results", tmp_path / "r", "--only", code=4)
    assert str(broken) in found.stderr
    found = tcprobe("show", "wmma.m16n16k16.d.f32", "--results", tmp_path / "r")
    assert f"Left out: {broken}" in found.stderr
    assert found.stderr.count(str(broken)) == 1
    assert "tcprobe 0.1.0, published\n" in found.stdout


def test_help_and_version_of_every_command():
    for command in ([], ["run"], ["fit"], ["compare"], ["list"], ["show"], ["why-not"], ["pages"]):
        assert "Usage" in tcprobe(*command, "--help").stdout
    assert "tcprobe, version" in tcprobe("--version").stdout


@pytest.mark.parametrize(
    ("code", "banned"),
    [
        ("from tcprobe.cli import main; main(['--help'], standalone_mode=False)", ("numpy", "rich", "sympy", "cupy")),
        (
            f"from tcprobe.cli import main; main(['show', 'mma.m16n8k16.f32.bf16.bf16.f32.a', *{RESULTS!r}], "
            "standalone_mode=False)",
            ("numpy", "sympy", "cupy"),
        ),
        (
            "from tcprobe.cli import main; main(['numerics', 'mma.m16n8k16.f32.bf16.bf16.f32'], standalone_mode=False)",
            ("numpy", "ml_dtypes", "rich"),
        ),
        ("import tcprobe.run.backend", ("numpy", "cupy")),
    ],
)
def test_slow_imports_are_not_made_where_they_are_not_needed(code, banned):
    check = f"{code}\nimport sys\nassert not set(sys.modules) & set({banned!r}), sys.modules"
    subprocess.run([sys.executable, "-c", check], check=True, capture_output=True, cwd=Path(__file__).parent)


EMULATED = (sys.executable, str(Path(__file__).parent / "emulated_worker.py"))


def test_run_measures_saves_and_sums_up(tmp_path, monkeypatch):
    monkeypatch.setattr("tcprobe.run.backend.COMMAND", (*EMULATED, "fine"))
    root = tmp_path / "r"
    kind = "mma.m16n8k32.row.col.kind::f8f6f4.f32.e2m1.e2m1.f32"
    text = tcprobe("run", "wmma.m8n8k4.*", kind, "--results", root, "--stages").stdout
    assert "(sm_90)" in text
    assert "measured    5  (5 wmma fragments)" in text
    assert f"refused: {kind}: not on sm_90" in text
    assert str(root / "sm_90") in text
    again = tcprobe("run", "wmma.m8n8k4.*", "--results", root).stdout
    assert "kept        5  measured before" in again
    assert "measured    5" in tcprobe("run", "wmma.m8n8k4.*", "--results", root, "--force").stdout
    tcprobe("run", "wmma.m8n8k4.*", "--arch", "sm_80", "--method", "live", "--results", root, code=2)


@pytest.mark.full
def test_run_says_what_failed_and_exits_with_1(tmp_path, monkeypatch):
    monkeypatch.setattr("tcprobe.run.backend.COMMAND", (*EMULATED, "fault", "mma.m8n8k16.row.col.s32.u8.s8.s32"))
    text = tcprobe("run", "mma.m8n8k16.*", "--results", tmp_path, code=1).stdout
    assert "measured    3  (3 mma)" in text
    assert "failed: mma.m8n8k16.row.col.s32.u8.s8.s32: CUDA_ERROR_ILLEGAL_ADDRESS" in text


HANGS = "mma.m8n8k16.row.col.s32.u8.s8.s32"  # comes after the fragments, so that some are saved


@pytest.mark.full
@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals")
def test_ctrl_c_keeps_what_was_measured(tmp_path):
    code = (
        f"from tcprobe.run import backend; backend.COMMAND = {(*EMULATED, 'hang', HANGS)!r}\n"
        f"from tcprobe.cli import main; main(['run', 'mma.m8n8k16.*', 'wmma.m*', '--results', {str(tmp_path)!r}])"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    folder = tmp_path / "sm_90" / "emulated"
    while process.poll() is None and not (folder.is_dir() and list(folder.glob("*.json"))):
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, words = process.communicate(timeout=600)
    assert process.returncode == 130
    assert "saved" in words
    assert "Traceback" not in words
    saved = list(Results(tmp_path).measurements("sm_90", "emulated"))
    assert 0 < len(saved) < 79
