"""`tcprobe check`: what programs rely on, files of any kind, what cannot be read or followed."""

import json
import re
import shutil
import subprocess
import sys

import command
import fatbins
import pytest
from click.testing import CliRunner
from machine_code import TOOLS, needs_tools

import tcprobe
from tcprobe.check import code_check, question, report
from tcprobe.check.rule import Finding, rules
from tcprobe.cli import main
from tcprobe.errors import DataError, UsageError
from tcprobe.sass.code_files import CodeFiles
from tcprobe.system.files import MOST_READ

pytestmark = [needs_tools, pytest.mark.skipif(sys.platform == "win32", reason="the tools' wheels differ")]
HAZARD = rules()["wgmma-operands"].FAILS
CLEAN = rules()["wgmma-operands"].PASSES


def check(*words, code=0):
    return command.tcprobe("check", *words, code=code)


def kernels(*words, code=0):
    return [json.loads(line) for line in check(*words, "--json", code=code).stdout.splitlines()]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Cubins of the loop with the hazard and of the one without."""
    folder = tmp_path_factory.mktemp("made")
    for name, text in (("hazard", HAZARD), ("clean", CLEAN)):
        source = folder / f"{name}.ptx"
        source.write_text(text.replace("entry kernel", f"entry {name}"))
        command = [TOOLS.ptxas, "-arch", "sm_90a", str(source), "-o", str(folder / f"{name}.cubin")]
        subprocess.run(command, check=True)
    return folder


def test_an_object_a_kernel_also_of_a_clean_one(made):
    (found,) = kernels(made / "hazard.cubin", "--rule", "wgmma-operands", code=1)
    assert set(found) == {"file", "kernel", "arch", "undecided", "findings"}
    assert (found["kernel"], found["arch"], found["undecided"]) == ("hazard", "sm_90", 0)
    (finding,) = found["findings"]
    assert set(finding) == {"rule", "severity", "address", "line", "text", "numbers"}
    assert (finding["rule"], finding["severity"], finding["line"]) == ("wgmma-operands", "error", None)
    assert set(finding["numbers"]) == {"register", "reader"}
    assert finding["address"] % 16 == finding["numbers"]["reader"] % 16 == 0
    (clean,) = kernels(made / "clean.cubin", "--rule", "wgmma-operands")
    assert (clean["findings"], clean["kernel"]) == ([], "clean")


def test_addresses_are_those_that_nvdisasm_prints(made):
    (found,) = kernels(made / "hazard.cubin", "--rule", "wgmma-operands", code=1)
    listed = subprocess.run(
        [TOOLS.nvdisasm, "-c", str(made / "hazard.cubin")], capture_output=True, text=True, check=True
    ).stdout
    finding = found["findings"][0]
    lines = {int(line.split("*")[1], 16): line for line in listed.splitlines() if "/*0" in line}
    assert f"R{finding['numbers']['register']}," in lines[finding["address"]]
    assert "HGMMA" in lines[finding["numbers"]["reader"]]


def test_lines_then_counts_and_the_exit_code(made):
    done = check(made / "hazard.cubin", made / "clean.cubin", "--rule", "wgmma-operands", code=1)
    first, last = done.stdout.splitlines()
    assert first.startswith("error: wgmma-operands: hazard (sm_90, ")
    assert last == "2 kernels: 1 error, 0 warnings, 0 notes; by wgmma-operands alone"
    assert check(made / "clean.cubin", "--rule", "wgmma-operands").stdout.startswith("1 kernel: 0 errors")


def test_a_kernel_and_a_severity_are_chosen(made):
    assert [k["kernel"] for k in kernels(made, "--kernel", "cl*", "--min", "error")] == ["clean"]
    assert "no function is named" in check(made, "--kernel", "nobody", code=2).stderr
    every = kernels(made / "clean.cubin", "--min", "note")
    errors = kernels(made / "clean.cubin", "--min", "error")
    assert [f["severity"] for k in errors for f in k["findings"]] == []
    assert every[0]["undecided"] == errors[0]["undecided"]


def test_ptx_is_assembled_and_folders_are_read(made, tmp_path):
    shutil.copy(made / "hazard.ptx", tmp_path / "one.ptx")
    (of_text,) = kernels(tmp_path, "--rule", "wgmma-operands", code=1)
    (of_cubin,) = kernels(made / "hazard.cubin", "--rule", "wgmma-operands", code=1)
    assert of_text["findings"] == of_cubin["findings"]
    packed = tmp_path / "library.so"
    packed.write_bytes(b"\0" * 64 + fatbins.fatbin(fatbins.entry((made / "hazard.cubin").read_bytes())))
    (of_library,) = kernels(packed, "--rule", "wgmma-operands", code=1)
    assert of_library["findings"] == of_cubin["findings"]


@pytest.mark.parametrize("form", ["--json", "--sarif"])
def test_a_baseline_leaves_what_is_new(made, tmp_path, form):
    saved = tmp_path / "known"
    if form == "--json":
        saved.write_text(check(made / "hazard.cubin", "--json", code=1).stdout)
    else:
        check(made / "hazard.cubin", "--sarif", saved, code=1)
    (known,) = kernels(made / "hazard.cubin", "--baseline", saved)
    assert known["findings"] == []
    saved.write_text(saved.read_text().replace("LDS.128 writes", "LDS.128 wrote"))
    (new,) = kernels(made / "hazard.cubin", "--baseline", saved, code=1)
    assert [f["rule"] for f in new["findings"]] == ["wgmma-operands"]


@pytest.mark.parametrize(
    "text", ["", "{", "[1]", '{"runs": 5}', '{"findings": [{}]}', "7", '{"runs": [{"results": [1]}]}']
)
def test_what_is_no_baseline_is_an_untrusted_file(made, tmp_path, text):
    saved = tmp_path / "known"
    saved.write_text(text)
    if text:
        check(made / "clean.cubin", "--baseline", saved, code=4)
    else:
        assert report.baseline(saved) == frozenset()


LEVELS = {"error", "warning", "note"}


def test_sarif_has_what_its_schema_asks_for(made, tmp_path):
    """The required properties, types and enumerations of SARIF 2.1.0 for what is written."""
    saved = tmp_path / "log.sarif"
    check(made / "hazard.cubin", made / "clean.cubin", "--sarif", saved, code=1)
    log = json.loads(saved.read_text())
    assert set(log) == {"$schema", "version", "runs"}
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    driver = run["tool"]["driver"]
    assert driver["name"] == "tcprobe"
    ids = [rule["id"] for rule in driver["rules"]]
    assert ids == list(rules())
    assert all(rule["defaultConfiguration"]["level"] in LEVELS for rule in driver["rules"])
    assert all(
        rule[part]["text"] for rule in driver["rules"] for part in ("shortDescription", "fullDescription", "help")
    )
    assert run["results"]
    for result in run["results"]:
        assert result["level"] in LEVELS
        assert result["message"]["text"]
        assert "ruleIndex" not in result or ids[result["ruleIndex"]] == result["ruleId"]
        (location,) = result["locations"]
        physical = location["physicalLocation"]
        assert physical["artifactLocation"]["uri"]
        assert ("region" in physical) != ("address" in physical)
        assert physical.get("region", {"startLine": 1})["startLine"] >= 1
        assert location["logicalLocations"] == [{"fullyQualifiedName": "hazard", "kind": "function"}] or "clean" in str(
            location
        )


def test_hostile_files_end_with_4_which_goes_before_1(made, tmp_path):
    broken = tmp_path / "broken.cubin"
    broken.write_bytes((made / "hazard.cubin").read_bytes()[:500])
    check(broken, code=4)
    done = check(made / "hazard.cubin", broken, "--rule", "wgmma-operands", code=4)
    assert "error: wgmma-operands" in done.stdout
    junk = tmp_path / "junk.cubin"
    raw = bytearray((made / "hazard.cubin").read_bytes())
    at = raw.rindex((made / "hazard.cubin").read_bytes()[0x400:0x410])
    raw[at : at + 16] = b"\xff" * 16
    junk.write_bytes(bytes(raw))
    done = CliRunner().invoke(main, ["check", str(junk)])
    assert done.exit_code in (0, 1, 4)
    assert "Traceback" not in done.output


def test_mistakes_in_the_call(made):
    assert "one of" in check(made, "--rule", "nothing", code=2).stderr
    assert "FILE" in check(code=2).stderr
    assert "Invalid value" in check(made, "--min", "fatal", code=2).stderr


def test_rules_are_explained_without_a_file():
    done = check("--rules")
    for rule in rules().values():
        assert f"{rule.NAME} ({rule.SEVERITY}): " in done.stdout
    assert [json.loads(line)["name"] for line in check("--rules", "--json").stdout.splitlines()] == list(rules())


def test_python_has_it(made, tmp_path):
    (found,) = tcprobe.check(made / "hazard.cubin", rule="wgmma-operands")
    assert found.findings[0].finding.numbers["reader"]
    assert tcprobe.check(str(made / "hazard.cubin"), rule="descriptor", min="error")[0].findings == ()
    with pytest.raises(UsageError, match="`min`"):
        tcprobe.check(made / "hazard.cubin", min="worst")
    (tmp_path / "no.cubin").write_bytes(b"no")
    with pytest.raises(DataError):
        tcprobe.check(tmp_path / "no.cubin")


def test_read_ends_with_a_line_of_it(made, monkeypatch):
    done = CliRunner().invoke(main, ["read", str(made / "hazard.cubin")])
    assert done.stdout.splitlines()[-1].startswith("tcprobe check finds 1 error, ")
    monkeypatch.setattr(question, "MOST_CHECKED", 100)
    done = CliRunner().invoke(main, ["read", str(made / "hazard.cubin")])
    assert done.stdout.splitlines()[-1].startswith("tcprobe check looks for what is wrong in it")


INDIRECT = """.version 7.0
.target sm_80
.address_size 64
.extern .func (.param .b32 out) far(.param .b32 in);
.visible .entry kernel(.param .u64 out, .param .u64 pointer) {
  .reg .b32 %r<4>; .reg .b64 %d<4>;
  ld.param.u64 %d0, [out]; ld.param.u64 %d1, [pointer]; mov.u32 %r0, %tid.x;
  { .param .b32 in; .param .b32 of; st.param.b32 [in], %r0;
    prototype: .callprototype (.param .b32 _) _ (.param .b32 _);
    call (of), %d1, (in), prototype; ld.param.b32 %r1, [of]; }
  st.global.u32 [%d0], %r1;
  ret;
}"""


def test_what_is_not_followed_is_a_note(tmp_path):
    source = tmp_path / "indirect.ptx"
    source.write_text(INDIRECT)
    (found,) = kernels(source, "--rule", "wgmma-operands")
    assert found["undecided"] >= 1
    assert any(f["severity"] == "note" and "not followed" in f["text"] for f in found["findings"])


def test_a_finding_without_a_rule_of_its_own_has_words():
    assert Finding("x", "note", 0, "y").numbers == {}


# nothing is called clean that was not looked at
UNREAD = {
    "no code": lambda raw: b"no",
    "cut short": lambda raw: raw[: len(raw) // 2],
    "another header": lambda raw: b"\x7fELF" + bytes(len(raw)),
}


@pytest.mark.parametrize("damage", UNREAD)
def test_what_was_not_looked_at_is_not_called_clean(damage, made, tmp_path):
    """By check, read and SARIF: alone, and beside a kernel that was read."""
    spoilt, log = tmp_path / "spoilt.cubin", tmp_path / "check.sarif"
    spoilt.write_bytes(UNREAD[damage]((made / "clean.cubin").read_bytes()))
    for words in (["check", str(spoilt), "--sarif", str(log)], ["read", str(spoilt)]):
        done = CliRunner().invoke(main, words)
        assert done.exit_code == DataError.exit_code
        assert not re.search(r"\b0 (errors|warnings|notes)", done.stdout), done.stdout
    run = json.loads(log.read_text())["runs"][0]
    assert [one["executionSuccessful"] for one in run["invocations"]] == [False]
    assert run["invocations"][0]["toolExecutionNotifications"][0]["message"]["text"].startswith(str(spoilt))
    for name in ("check", "read"):
        done = CliRunner().invoke(main, [name, str(made / "clean.cubin"), str(spoilt)])
        assert "1 part of the files not looked at" in done.stdout


def test_a_file_of_any_size_is_looked_into(made, tmp_path):
    """Also one without code, of which nothing is called clean; and the code behind it, of its arch."""
    path, raw = tmp_path / "large.so", (made / "clean.cubin").read_bytes()
    with path.open("wb") as file:
        file.truncate(MOST_READ + 1)
    for name in ("check", "read", "predict"):
        done = CliRunner().invoke(main, [name, str(path)])
        assert (done.exit_code, "errors" in done.stdout) == (DataError.exit_code, False), done.stdout
    with path.open("ab") as file:
        file.write(fatbins.fatbin(fatbins.entry(b"no cubin", arch=75), fatbins.entry(raw, arch=90)))
    assert "1 kernel: 0 errors" in check(path, "--arch", "sm_90").stdout
    assert check(path, code=DataError.exit_code).stderr


def test_what_is_left_out_is_not_counted(made, tmp_path):
    """Severities below --min are not said to be none; rules and a baseline that leave something out are named."""
    hazard = made / "hazard.cubin"
    assert check(hazard, "--min", "error", code=1).stdout.splitlines()[-1] == "1 kernel: 1 error"
    (tmp_path / "known.json").write_text(check(hazard, "--json", code=1).stdout)
    last = check(hazard, "--baseline", tmp_path / "known.json").stdout
    assert "0 errors, 0 warnings, 0 notes; beside those of" in last
    assert "by descriptor alone" in check(hazard, "--rule", "descriptor").stdout


def test_a_clean_kernel_is_told_what_no_rule_looks_at(made):
    assert "`tcprobe emulate`" in check(made / "clean.cubin").stdout
    assert "`tcprobe emulate`" not in check(made / "hazard.cubin", code=1).stdout


@pytest.mark.parametrize("words", ["race", "data race", "missing barrier", "missing __syncthreads", "deadlock"])
def test_who_looks_for_races_is_found_first(words):
    assert CliRunner().invoke(main, ["find", *words.split()]).stdout.startswith("emulate: ")


def many(folder, made, count):
    """A library of kernels that are instances of two templates, all but the last with the hazard."""
    parts = []
    for number in range(count):
        raw = (made / ("clean.cubin" if number == count - 1 else "hazard.cubin")).read_bytes()
        name = b"hazard" if number < count - 1 else b"clean"
        parts.append(fatbins.entry(raw.replace(name, b"%c" % (97 + number) * len(name)), arch=90))
    path = folder / "library.so"
    path.write_bytes(fatbins.fatbin(*parts))
    return path


def test_what_is_alike_is_said_once(made, tmp_path):
    """A table, one line a finding with how often it is there, the counts; --all says each."""
    path = many(tmp_path, made, 6)
    lines = check(path, "--rule", "wgmma-operands", code=1).stdout.splitlines()
    assert lines[0].split()[:2] == ["template", "kernels"]
    assert len([line for line in lines if line.startswith("error: wgmma-operands:")]) == 5
    (line,) = (
        line
        for line in check(path, "--rule", "wgmma-operands", "--by", "rule", code=1).stdout.splitlines()
        if line.startswith("error: ")
    )
    assert "and 4 more in 5 kernels" in line
    assert sum(w.startswith("error:") for w in check(path, "--min", "error", "--all", code=1).stdout.splitlines()) == 5
    assert "4 more of 4 kinds of error" in check(path, "--rule", "wgmma-operands", "--top", "1", code=1).stdout


def test_cheap_warnings_are_left_out_and_that_is_said(made):
    rows = rules()["bank-conflicts"].FAILS
    source = made / "conflicts.ptx"
    source.write_text(rows)
    found = [
        each["numbers"]["cycles"]
        for kernel in kernels(source)
        for each in kernel["findings"]
        if each["severity"] == "warning"
    ]
    most = int(max(found))
    assert f"{sum(each >= most for each in found)} warning" in check(source, "--min-cycles", most).stdout
    assert "0 warnings" in check(source, "--min-cycles", most + 1).stdout
    assert f"{most + 1} cycles or more" in check(source, "--min-cycles", most + 1).stdout


def test_other_processes_find_the_same(made, tmp_path):
    """In the same order, what cannot be read too."""
    path, tools = many(tmp_path, made, 6), TOOLS
    (tmp_path / "bad.cubin").write_bytes((made / "clean.cubin").read_bytes()[:2000])
    answers = []
    for cores in (1, 2):
        checker = code_check.Checker(tools, list(rules()), CodeFiles(tools), cores=cores)
        answers.append((list(checker.check([path, tmp_path / "bad.cubin", made])), checker.complaints))
    assert answers[0] == answers[1]
    assert len(answers[0][0]) >= 8
    assert answers[0][1]


def test_a_command_starts_processes_and_a_python_program_none(made, tmp_path, monkeypatch):
    """Each process imports the program that asks: a script without a guard would ask again."""
    path = many(tmp_path, made, 4)
    alone = check(path, code=1).stdout
    monkeypatch.setattr(question, "MOST_ALONE", 0)
    assert check(path, code=1).stdout == alone
    script = tmp_path / "script.py"
    words = f"question.MOST_ALONE = 0\nprint(len(tcprobe.check({str(path)!r})))\n"
    script.write_text("import tcprobe\nfrom tcprobe.check import question\n" + words)
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True)
    assert done.stdout == "4\n"
