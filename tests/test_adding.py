"""Adding a family is two files, one of rows and one of probes (tests/data/adding): nothing else knows its name.

128 threads, 12 elements of D a thread, stored columns of A chosen by metadata under two selectors, any layouts: from
its rows to what the commands say of it, its pages and its place on the site.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

RUN = Path(__file__).parent / "data" / "adding" / "run.py"
FORM = "drymma.m64n24k32.row.col.f32.f16.f16.f32"


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("adding") / "results"
    tcprobe("measure", folder)
    return folder


def tcprobe(*arguments):
    done = subprocess.run([sys.executable, RUN, *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_no_other_file_knows_it():
    root = RUN.parents[3] / "tcprobe"
    assert not [path for path in root.rglob("*.py") if "drymma" in path.read_text()]


def test_it_is_listed():
    found = json.loads(tcprobe("list", "--family", "drymma", "--json"))
    assert {(f["operand"], f["threads"], f["elements"]) for f in found} == {
        ("a", 128, 8), ("b", 128, 6), ("c", 128, 12), ("d", 128, 12), ("e", 128, 16)
    }  # fmt: skip
    assert len(found) == 10
    assert {f["min_arch"] for f in found} == {"sm_90a"}


def test_its_tables_are_shown_and_asked(results):
    shown = json.loads(tcprobe("show", f"{FORM}.d", "--json", "--results", results))
    assert shown["provenance"]["method"] == "live"
    assert len(shown["table"]) == 128
    (lane, i), = ((lane, row.index([3, 5])) for lane, row in enumerate(shown["table"]) if [3, 5] in row)  # fmt: skip
    assert f"lane {lane} i {i} " in tcprobe("where", f"{FORM}.d", "--row", 3, "--col", 5, "--results", results)


def test_a_result_is_traced_through_its_metadata(results):
    table = json.loads(tcprobe("show", f"{FORM}.e", "--selector", 1, "--json", "--results", results))
    found = json.loads(tcprobe("trace", FORM, "--row", 3, "--col", 5, "--selector", 1, "--json", "--results", results))
    assert len(found["meetings"]) == 16
    for stored, meeting in enumerate(found["meetings"]):
        (field,) = meeting["e"]
        assert table["table"][field["lane"]][field["i"]] == [3, stored]
        assert [k["row"] for k in meeting["b"]] == list(range(stored // 2 * 4, stored // 2 * 4 + 4))


@pytest.mark.parametrize("form", ["csv", "json", "markdown", "svg"])
def test_it_is_emitted(results, form):
    assert tcprobe("emit", f"{FORM}.d", "--to", form, "--arch", "sm_90", "--results", results)


def test_it_is_compared(results):
    assert "0        0           10" in tcprobe("compare", "--results", results, "--only")


def test_it_has_pages(results):
    tcprobe("pages", "--results", results)
    assert any(FORM in path.read_text() for path in results.rglob("*.md"))
