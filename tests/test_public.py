"""The public face: forms and workflows are what their schemas ask for, run what the README says, and can be built."""

import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import click
import pytest

import tcprobe
from tcprobe.cli import main

ROOT = Path(__file__).parent.parent
GITHUB = ROOT / ".github"
TCPROBE = Path(tcprobe.__file__).parent
SCHEMAS = {
    "vendor.github-workflows": [*GITHUB.glob("workflows/*.yml")],
    "vendor.github-issue-forms": [p for p in GITHUB.glob("ISSUE_TEMPLATE/*.yml") if p.name != "config.yml"],
    "vendor.github-issue-config": [GITHUB / "ISSUE_TEMPLATE" / "config.yml"],
    "vendor.citation-file-format": [ROOT / "CITATION.cff"],
}


@pytest.mark.full
@pytest.mark.parametrize("schema", SCHEMAS)
def test_files_keep_their_schemas(schema):
    pytest.importorskip("check_jsonschema", reason="no check-jsonschema: pip install 'tcprobe[dev]'")
    assert SCHEMAS[schema]
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, *map(str, SCHEMAS[schema])]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(not shutil.which("actionlint"), reason="no actionlint here")
def test_actionlint_finds_nothing():
    done = subprocess.run(
        ["actionlint", *map(str, SCHEMAS["vendor.github-workflows"])], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


def test_no_workflow_may_write_more_than_it_must():
    for path in SCHEMAS["vendor.github-workflows"]:
        text = path.read_text()
        assert re.search(r"^permissions:\n  contents: read\n", text, re.MULTILINE)
        assert not re.search(r"run:.*\$\{\{", text), "values of events belong into env"
        assert "pull_request_target" not in text


def test_the_citation_names_this_version():
    assert f"version: {tcprobe.__version__}\n" in (ROOT / "CITATION.cff").read_text()


def test_commands_of_the_public_files_exist():
    known = set(main.list_commands(click.Context(main)))
    for name in ("CONTRIBUTING.md", ".github/workflows/test.yml", ".github/workflows/publish.yml"):
        said = set(re.findall(r"tcprobe ([a-z-]+) (?:-|wmma|mine|FRAGMENT)", (ROOT / name).read_text()))
        assert said <= known, name


def test_links_of_the_public_files_lead_somewhere():
    for name in ("CONTRIBUTING.md", "SECURITY.md"):
        for target in re.findall(r"`((?:tcprobe|tests|tools|results|docs)/[\w/.]+)`", (ROOT / name).read_text()):
            stands_for_others = target.startswith("results/") or Path(target).stem.isupper()
            assert stands_for_others or (ROOT / target).exists(), (name, target)


@pytest.mark.full
def test_the_sdist_builds_a_wheel_with_the_site(tmp_path):
    """A dry build: templates, script and style are in it, and so are the files that people look for."""
    hatchling = pytest.importorskip("hatchling.build", reason="no hatchling here")
    assert hatchling
    for kind in ("sdist", "wheel"):
        command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(tmp_path)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    (wheel,), (sdist,) = tmp_path.glob("*.whl"), tmp_path.glob("*.tar.gz")
    names = set(zipfile.ZipFile(wheel).namelist())
    site = "tcprobe/pages/site"
    assert {f"{site}/static/site.js", f"{site}/static/site.css", f"{site}/templates/fact.html"} <= names
    filled = {str(path.relative_to(ROOT)) for kind in ("ptx", "cu", "cuh", "md") for path in TCPROBE.rglob(f"*.{kind}")}
    assert filled
    assert filled <= names
    with tarfile.open(sdist) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    assert {"CONTRIBUTING.md", "SECURITY.md", "CITATION.cff", "pyproject.toml", "results/README.md"} <= inside
