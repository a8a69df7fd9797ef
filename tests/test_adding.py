"""Adding a family is two files, one of rows and one of probes (tests/data/adding): nothing else knows its name.
Adding a kind of finding is two, one of the kind (schema, checks, words) and one of probes; a question is one.

128 threads, 12 elements of D a thread, stored columns of A chosen by metadata under two selectors, any layouts: from
its rows to what the commands say of it, its pages and its place on the site.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tcprobe.store import documents

RUN = Path(__file__).parent / "data" / "adding" / "run.py"
FORM = "drymma.m64n24k32.row.col.f32.f16.f16.f32"


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("adding") / "results"
    added("measure", folder)
    return folder


def added(*arguments, code=0):
    """What a tcprobe says to which family, kind and question were added."""
    done = subprocess.run([sys.executable, RUN, *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr if code else done.stdout


def test_no_other_file_knows_it():
    root = RUN.parents[3] / "tcprobe"
    assert not [path for path in root.rglob("*.py") if re.search("drymma|drystride", path.read_text())]


def test_it_is_listed():
    found = json.loads(added("list", "--family", "drymma", "--json"))
    assert {(f["operand"], f["threads"], f["elements"]) for f in found} == {
        ("a", 128, 8),
        ("b", 128, 6),
        ("c", 128, 12),
        ("d", 128, 12),
        ("e", 128, 16),
    }
    assert len(found) == 10
    assert {f["min_arch"] for f in found} == {"sm_90a"}


@pytest.mark.full
def test_its_tables_are_shown_and_asked(results):
    shown = json.loads(added("show", f"{FORM}.d", "--json", "--results", results))
    assert shown["provenance"]["method"] == "live"
    assert len(shown["table"]) == 128
    ((lane, i),) = ((lane, row.index([3, 5])) for lane, row in enumerate(shown["table"]) if [3, 5] in row)
    assert f"thread {lane} (warp {lane // 32}, lane {lane % 32}) i {i} " in added(
        "where", f"{FORM}.d", "--row", 3, "--col", 5, "--results", results
    )


@pytest.mark.full
def test_a_result_is_traced_through_its_metadata(results):
    table = json.loads(added("show", f"{FORM}.e", "--selector", 1, "--json", "--results", results))
    found = json.loads(added("trace", FORM, "--row", 3, "--col", 5, "--selector", 1, "--json", "--results", results))
    assert len(found["meetings"]) == 16
    for stored, meeting in enumerate(found["meetings"]):
        (field,) = meeting["e"]
        assert table["table"][field["lane"]][field["i"]] == [3, stored]
        assert [k["row"] for k in meeting["b"]] == list(range(stored // 2 * 4, stored // 2 * 4 + 4))


@pytest.mark.parametrize("form", ["csv", "json", "markdown", "svg"])
@pytest.mark.sampled(4)
def test_it_is_emitted(results, form):
    assert added("emit", f"{FORM}.d", "--to", form, "--arch", "sm_90", "--results", results)


def test_it_is_compared(results):
    assert "0        0           10" in added("compare", "--results", results, "--only")


@pytest.mark.full
def test_it_has_pages(results):
    added("pages", "--results", results)
    section = (results / "README.md").read_text().split("### drymma")[1]
    assert "| m64n24k32: A, B, C, D, E of b2, bf16, f16, f32 (10) | sm_90 |" in section


@pytest.mark.full
def test_it_has_a_place_on_the_site(results, tmp_path):
    added("site", "-o", tmp_path / "site", "--results", results)
    assert (tmp_path / "site" / "f" / f"{FORM}.d.html").exists()
    assert (tmp_path / "site" / "m" / f"{FORM}.html").exists()


# the kind


def test_a_kind_is_measured_saved_kept_and_said_in_words(tmp_path):
    text = added("run", "--family", "drystride", "--results", tmp_path)
    assert "measured    2  (2 drystride)" in text
    assert "live on a machine, driver 1, CUDA 13.0: narrow 4 bytes, wide 16 bytes; saved in" in text
    folder = tmp_path / "sm_90" / "live" / "drystride"
    assert {path.name for path in folder.iterdir()} == {"narrow.json", "wide.json"}
    again = json.loads(added("run", "--family", "drystride", "--json", "--results", tmp_path))
    assert (again["kind"], again["kept"], again["findings"]) == ("drystride", 2, {})
    forced = json.loads(added("run", "--family", "drystride", "w*", "--force", "--json", "--results", tmp_path))
    assert forced["findings"] == {"wide": {"bytes": 16}}


@pytest.mark.full
def test_a_kind_is_checked_when_it_is_read(tmp_path):
    added("run", "--family", "drystride", "--results", tmp_path)
    path = tmp_path / "sm_90" / "live" / "drystride" / "wide.json"
    body = documents.read(path, "drystride")
    for bytes_ in (8, 0, "16"):  # lanes that overlap; no shape of the kind
        path.write_text(documents.seal("drystride", body | {"body": {"bytes": bytes_}}))
        assert "measured again, because it cannot be trusted" in tcprobe_says(tmp_path)
        assert documents.read(path, "drystride") == body


def tcprobe_says(folder):
    """What a run says beside its results."""
    done = subprocess.run(
        [sys.executable, RUN, "run", "--family", "drystride", "--results", folder],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stderr


def test_a_kind_is_among_those_that_run_names():
    assert "drystride" in added("run", "--family", "x", code=2)


def test_a_question_is_one_file():
    """Its options, choices, numbers, JSON, help, completion and errors follow from its function's signature, and
    docs/schema.json from the type of its answer.
    """
    root = RUN.parents[3]
    assert not [path for path in (root / "tcprobe").rglob("*.py") if "pitch" in path.stem]
    words = ("pitch-of", "m16n8k16", "bf16", "f32", "a")
    assert added(*words) == "mma.m16n8k16.row.col.f32.bf16.bf16.f32.a: 4 elements of a line per lane\n"
    found = json.loads(added(*words, "--along", "col", "--json", "--arch", "h100"))
    assert found["elements"] == 2
    made, before = (
        json.loads(text)["$defs"] for text in (added("schema"), (root / "docs" / "schema.json").read_text())
    )
    schema = made.pop("pitch-of")
    assert made == before
    assert (schema["version"], schema["properties"]["elements"]) == (1, {"type": "integer", "minimum": 1})
    assert set(schema["properties"]) == set(schema["required"]) == set(found)
    shown = added("pitch-of", "--help")
    for text in ("Count the elements of a line", "--along [row|col]", "[default: row]", "--least N", "--results"):
        assert text in shown
    assert "pitch-of" in added("--help")
    assert "Error: --least 5: mma.m16n8k16.row.col.f32.bf16.bf16.f32.a has 4; see --along." in added(
        *words, "--least", "5", code=2
    )
    assert "number" in added(*words, "--least", "x", code=2)
