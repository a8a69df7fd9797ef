"""Findings of other kinds than tables, by the one run loop: saved, kept, measured again, and lost one at a time."""

import json
import shutil
import sys
from pathlib import Path

import jsonschema
import pytest
from bench import DEVICE, TensorCore, document, found, save
from command import tcprobe

from tcprobe.errors import DataError, NewerSchemaError
from tcprobe.probes import dialogues
from tcprobe.probes.experiment import kernels, ptx_hash
from tcprobe.run import runner
from tcprobe.run.backend import Worker
from tcprobe.run.campaign import select
from tcprobe.run.runner import provenance
from tcprobe.store import findings, kinds
from tcprobe.store.finding import Finding, Key
from tcprobe.store.results import Results, published
from tcprobe.system import files

HERE = Path(__file__).parent
LOADS = ("ld.shared.b32", "ld.shared.b64", "ld.shared.b128")
WIDE = "mma.sp.m16n8k32.row.col.f32.f16.f16.f32"
TRIED = (WIDE, f"{WIDE}.selector2", f"{WIDE}.selector3")
OF_KIND = {"banks": ("Clock", LOADS), "undocumented": ("TensorCore", TRIED)}


def run(folder, kind, mode="fine", part="", compiler="", limit=30.0, force=False):
    """The findings of a run by subject, as `tcprobe run --family KIND` would make them."""
    machine, subjects = OF_KIND[kind]
    spec = Worker((sys.executable, str(HERE / "emulated_worker.py"), mode, part, compiler, machine), limit)
    with runner.Session(spec) as session:
        device = runner.choose(session.devices)
        todo = select(subjects, kind)
        todo = todo if force else runner.missing(todo, device, Results(folder))[0]
        items = list(runner.measure(session, device, todo, Results(folder)))
    return {one.subject: one for one in items if not isinstance(one, runner.JobEnd)}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A folder with both kinds, as runs save them."""
    folder = tmp_path_factory.mktemp("whole")
    for kind, (_, subjects) in OF_KIND.items():
        made = run(folder, kind)
        assert {one.status for one in made.values()} == {"measured"}
        assert set(made) == set(subjects)
    return folder


def copied(whole, tmp_path):
    shutil.copytree(whole, tmp_path, dirs_exist_ok=True)
    return tmp_path


@pytest.mark.full
@pytest.mark.parametrize("kind", OF_KIND)
def test_a_run_saves_a_file_for_each_subject_and_keeps_it(kind, whole):
    folder, (_, subjects) = whole / "sm_90" / "live" / kind, OF_KIND[kind]
    assert {path.name for path in folder.iterdir()} == {f"{subject}.json" for subject in subjects}
    assert run(whole, kind) == {}
    for one in findings.every(Results(whole), kind, "sm_90"):
        assert one.provenance == provenance(DEVICE, ptx_hash(kernels(dialogues(kind)[one.subject])))


@pytest.mark.full
@pytest.mark.parametrize("kind", OF_KIND)
def test_what_is_missing_is_measured_and_all_of_it_by_force(kind, whole, tmp_path):
    folder, (_, subjects) = copied(whole, tmp_path), OF_KIND[kind]
    gone = folder / "sm_90" / "live" / kind / f"{subjects[1]}.json"
    text = gone.read_bytes()
    gone.unlink()
    assert set(run(folder, kind)) == {subjects[1]}
    assert gone.read_bytes() == text
    assert set(run(folder, kind, force=True)) == set(subjects)
    assert gone.read_bytes() == text


@pytest.mark.full
@pytest.mark.parametrize("kind", OF_KIND)
def test_another_compiler_measures_all_of_it_again(kind, whole, tmp_path):
    folder, (_, subjects) = copied(whole, tmp_path), OF_KIND[kind]
    made = run(folder, kind, compiler="another")
    assert set(made) == set(subjects)
    assert {one.provenance["compiler"] for one in made.values()} == {"another"}
    assert run(folder, kind, compiler="another") == {}


LOST = [
    ("die", "ended by signal 11", 30),
    ("fault", "illegal memory access", 30),
    ("hang", "no answer for 3 s", 3),
    ("bug", "nobody expects this", 30),
]


@pytest.mark.full
@pytest.mark.parametrize(("mode", "words", "limit"), LOST)
def test_what_loses_the_device_costs_itself_only(mode, words, limit, tmp_path):
    made = run(tmp_path, "banks", mode, "ld_shared_b64", limit=limit)
    assert {subject for subject, one in made.items() if one.status == "failed"} == {"ld.shared.b64"}
    assert words in made["ld.shared.b64"].words
    assert set(made) == set(LOADS)
    assert {subject: one.status for subject, one in run(tmp_path, "banks").items()} == {"ld.shared.b64": "measured"}


OUTCOMES = [("die", "fault", 30), ("fault", "fault", 30), ("hang", "hangs", 3), ("refuse", "refused", 30)]


@pytest.mark.full
@pytest.mark.parametrize(("mode", "outcome", "limit"), OUTCOMES)
def test_that_a_selector_loses_the_device_is_what_is_found(mode, outcome, limit, tmp_path):
    last = kernels(dialogues("undocumented")[TRIED[2]])[0].name
    made = run(tmp_path, "undocumented", mode, last, limit=limit)
    assert {one.status for one in made.values()} == {"measured"}
    assert {subject: one.body.selector.outcome for subject, one in made.items() if one.body.selector} == {
        TRIED[1]: "runs",
        TRIED[2]: outcome,
    }
    assert run(tmp_path, "undocumented") == {}


@pytest.mark.full
def test_an_error_of_tcprobe_is_no_finding_of_a_selector(tmp_path):
    made = run(tmp_path, "undocumented", "bug", kernels(dialogues("undocumented")[TRIED[2]])[0].name)
    assert (made[TRIED[2]].status, made[TRIED[2]].body) == ("failed", None)
    assert "expects" in made[TRIED[2]].words


@pytest.mark.full
def test_what_the_compiler_refuses_is_said(tmp_path):
    made = run(tmp_path, "banks", "refuse", "ld_shared_b64")
    assert (made["ld.shared.b64"].status, made["ld.shared.b64"].words) == ("refused", "no such form")
    assert {one.status for subject, one in made.items() if subject != "ld.shared.b64"} == {"measured"}


@pytest.mark.full
def test_a_failure_stays_beside_what_was_found_and_takes_the_place_of_another(whole, tmp_path):
    folder, key = copied(whole, tmp_path), Key("banks", "sm_90", "live", "ld.shared.b64")
    before = findings.path(Results(folder), key).read_bytes()
    run(folder, "banks", "fault", "ld_shared_b64", force=True)
    assert findings.path(Results(folder), key).read_bytes() == before
    aside = findings.refusal_path(Results(folder), key)
    assert "illegal" in aside.read_text()
    run(folder, "banks", force=True)
    assert not aside.exists()
    other = tmp_path / "other"
    for mode, words in (("fault", "illegal memory access"), ("refuse", "no such form")):
        run(other, "banks", mode, "ld_shared_b64")
        assert words in findings.read(Results(other), key).words


def test_damaged_files_are_measured_again_newer_ones_are_not_touched(whole, tmp_path):
    folder, key = copied(whole, tmp_path), Key("banks", "sm_90", "live", "ld.shared.b64")
    path = findings.path(Results(folder), key)
    text = path.read_text()
    path.write_text(text[:100])
    with pytest.raises(DataError):
        findings.read(Results(folder), key)
    assert set(run(folder, "banks")) == {key.subject}
    assert path.read_text() == text
    path.write_text(text.replace('"schema": 1', '"schema": 9'))
    with pytest.raises(NewerSchemaError):
        run(folder, "banks")


# earlier documents


def earlier(folder, kind="undocumented"):
    """A folder with what is published of a kind as an earlier tcprobe wrote it, and what it holds."""
    name = {"tensor_maps": "tma"}.get(kind, kind)
    bodies = {one.subject: one.plain for one in findings.every(published(), kind, "sm_90")}
    document(folder, name, {"banks": of_banks, "tma": of_tensor_maps}.get(name, PARTS.get(kind))(bodies))
    return folder / "sm_90" / f"{name}.json", list(findings.every(Results(folder), kind, "sm_90"))


def of_banks(bodies):
    return {"accesses": bodies}


def of_undocumented(bodies):
    forms = {id_: {"nibbles": body["nibbles"], "selectors": {}} for id_, body in bodies.items() if "nibbles" in body}
    for subject, body in bodies.items():
        id_, _, number = subject.partition(".selector")
        if number:
            forms[id_]["selectors"][number] = body["selector"] | {"as": body["selector"].get("as")}
    return {"forms": forms}


def of_descriptors(bodies):
    products = [body["products"] for body in bodies.values() if "products" in body]
    counts = {name: sum(one[name] for one in products) for name in ("products", "wrong")}
    return {"cases": [body["case"] for body in bodies.values() if "case" in body], "products": counts}


def of_tensor_maps(bodies):
    modes = {name: body["mode"] for name, body in bodies.items() if "mode" in body}
    faults = [body["fault"] for body in bodies.values() if "fault" in body]
    maps = {"taken": 598, "refused": 1025, "unlike_rules": []}
    return {"modes": modes, "encodings": bodies["encodings"]["calls"], "maps": maps, "lost": [], "faults": faults}


PARTS = {"undocumented": of_undocumented, "descriptors": of_descriptors}


@pytest.mark.parametrize("kind", sorted(findings.EARLIER))
def test_an_earlier_document_is_split_at_the_first_write_and_says_the_same(kind, tmp_path):
    path, before = earlier(tmp_path, kind)
    findings.write(Results(tmp_path), before[-1])
    assert not path.exists()
    assert len(list((tmp_path / "sm_90" / "live" / kind).iterdir())) == len(before)
    assert list(findings.every(Results(tmp_path), kind, "sm_90")) == before


@pytest.mark.parametrize("after", [0, 1, 7])
def test_a_split_that_is_interrupted_loses_nothing(after, tmp_path, monkeypatch):
    path, before = earlier(tmp_path)
    new, count = found(dialogues("undocumented")[WIDE], TensorCore()), iter(range(after))
    write = files.write

    def stopped(*arguments, **more):
        if next(count, None) is None:
            raise KeyboardInterrupt
        write(*arguments, **more)

    monkeypatch.setattr(files, "write", stopped)
    with pytest.raises(KeyboardInterrupt):
        findings.write(Results(tmp_path), new)
    monkeypatch.undo()
    assert path.exists()
    assert list(findings.every(Results(tmp_path), "undocumented", "sm_90")) == before
    findings.write(Results(tmp_path), new)
    now = {one.subject: one for one in findings.every(Results(tmp_path), "undocumented", "sm_90")}
    assert now == {one.subject: one for one in before} | {WIDE: new}
    assert not path.exists()


def test_what_has_a_file_is_newer_than_the_document(tmp_path):
    path, _ = earlier(tmp_path)
    document_bytes, new = path.read_bytes(), found(dialogues("undocumented")[WIDE], TensorCore())
    findings.write(Results(tmp_path), new)
    path.write_bytes(document_bytes)
    assert findings.read(Results(tmp_path), new.key) == new
    findings.settle(Results(tmp_path), "undocumented", "sm_90")
    assert findings.read(Results(tmp_path), new.key) == new


@pytest.mark.full
def test_a_document_that_cannot_be_trusted_stops_no_run(tmp_path):
    document(tmp_path, "banks", {"accesses": {"no.such": {}}})
    before = (tmp_path / "sm_90" / "banks.json").read_bytes()
    assert set(run(tmp_path, "banks")) == set(LOADS)
    assert (tmp_path / "sm_90" / "banks.untrusted").read_bytes() == before


# the command


@pytest.fixture
def command_run(monkeypatch, tmp_path):
    worker = (sys.executable, str(HERE / "emulated_worker.py"), "fine", "", "", "Clock")
    monkeypatch.setattr("tcprobe.run.backend.COMMAND", worker)

    return lambda *words, code=0: tcprobe("run", *words, "--results", tmp_path, code=code)


@pytest.mark.full
def test_run_says_what_was_found_and_what_was_kept(command_run, tmp_path):
    text = command_run("--family", "banks", *LOADS).stdout
    assert "measured    3  (3 banks)" in text
    counted = f"{patterns(tmp_path):,}"
    words = f"the model matches {counted} of {counted} measured patterns; saved in"
    assert f"live on a machine, driver 1, CUDA 13.0: {words}" in text
    told = json.loads(command_run("--family", "banks", "ld.shared.*", "--json").stdout)
    assert (told["kind"], told["kept"]) == ("banks", 3)
    assert set(told["findings"]) == {id_ for id_ in dialogues("banks") if id_.startswith("ld.shared.")} - set(LOADS)
    checks = jsonschema.Draft202012Validator(kinds.schema("banks"))
    for body in told["findings"].values():
        checks.validate(body)
    again = json.loads(command_run("--family", "banks", *LOADS, "--json").stdout)
    schema = json.loads((HERE.parent / "docs" / "schema.json").read_text())
    for printed in (told, again):
        jsonschema.Draft202012Validator(schema | {"$ref": "#/$defs/run"}).validate(printed)
    assert (again["kind"], again["findings"], again["kept"]) == ("banks", {}, 3)


def patterns(folder):
    return sum(one.body.patterns for one in findings.every(Results(folder), "banks", "sm_90"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("mma.*",), "mma.*: not a subject of banks; one is ld.shared.b8"),
        (("--method", "sass"), "measured on a GPU"),
        (("--arch", "sm_80"), "no visible GPU of arch sm_80"),
        (("--device", "7"), "no visible GPU number 7"),
    ],
)
def test_mistakes_in_the_call(command_run, arguments, words):
    assert words in command_run("--family", "banks", *arguments, code=2).stderr


# all kinds


@pytest.mark.full
@pytest.mark.parametrize("kind", kinds.names())
def test_what_is_published_of_a_kind_has_its_schema(kind):
    found, schema = list(findings.every(published(), kind, "sm_90")), kinds.schema(kind)
    checks = jsonschema.validators.validator_for(schema)(schema)
    checks.check_schema(schema)
    for one in found:
        if one.status == "measured":
            checks.validate(one.plain)
            kinds.check(one)
        else:
            assert one.plain is None
            assert one.words
    assert kinds.kind(kind).words([one for one in found if one.status == "measured"]).isprintable()


def test_a_method_that_cannot_find_a_kind_is_refused(tmp_path):
    one = found(dialogues("undocumented")[WIDE], TensorCore())
    with pytest.raises(DataError, match="cannot be found by method sass"):
        findings.write(
            Results(tmp_path), Finding(one.kind, one.subject, one.arch, "sass", "measured", one.provenance, one.body)
        )


def test_words_name_everyone_who_measured(tmp_path):
    bodies = {one.subject: one.body for one in findings.every(published(), "banks", "sm_90")}
    first, *others = bodies
    save(tmp_path, "banks", {first: bodies[first]}, device="GPU A")
    save(tmp_path, "banks", {other: bodies[other] for other in others}, device="GPU B")
    text = kinds.kind("banks").words(list(findings.every(Results(tmp_path), "banks", "sm_90")))
    assert "on GPU A" in text
    assert "on GPU B" in text
