"""Versions of packages: since which one a layout differs, and packages in the environment of another Python."""

import importlib.util
import json
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import msgspec
import pytest
from command import tcprobe

from tcprobe.audit import package_audit
from tcprobe.errors import DataError, EnvironmentUnfitError
from tcprobe.pages import overview
from tcprobe.store import surveys

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="the package's wheel is a Linux one")
A, B = ("a", "f.a", 3, 8), ("b", "f.b", 4, 8)
ASCENDING = [
    "0.1.dev1",
    "0.1a2",
    "0.1rc1",
    "0.1",
    "0.1.post1",
    "0.1.0",
    "0.1.1",
    "0.1.9",
    "0.1.10",
    "0.2",
    "1.0",
    "10.0",
]


def audit(*words, code=0):
    return tcprobe("audit", *words, code=code)


def audited(version, *differences, package="p"):
    """An audit as `--json` has it, with (name, fragment, differ, of) of each difference."""
    told = {"words": "w", "first": [], "evidence": "e", "reported": "r"}
    found = [dict(zip(("name", "fragment", "differ", "of"), one, strict=True)) | told for one in differences]
    counts = {"agree": 5, "differ": len(found), "of": 5 + len(found), "not_covered": 0}
    return {"package": package, "version": version, **counts, "findings": found}


def sinces(folder):
    """(version, before) by the name of a difference of the newest version."""
    (one,) = surveys.load_audits(folder)
    return {found.name: tuple(surveys.since(found, one.version, one.earlier)) for found in one.findings}


def test_versions_are_ordered_as_the_index_orders_them():
    keys = [surveys.order(version) for version in ASCENDING]
    assert keys == sorted(keys)
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("turned", [False, True])
def test_a_difference_is_as_old_as_the_versions_that_have_it_without_a_gap(tmp_path, turned):
    """In whichever order they were audited; a difference that was gone in between counts anew, and so does another."""
    versions = {"0.8": [A], "0.9": [], "0.9.1": [A], "0.10": [A, B], "0.11": [A, ("b", "f.b", 5, 8)]}
    for version, found in reversed(versions.items()) if turned else versions.items():
        surveys.save_audit(tmp_path, audited(version, *found))
    assert sinces(tmp_path) == {"a": ("0.9.1", "0.9"), "b": ("0.11", "0.10")}
    before = (tmp_path / "errata.json").read_bytes()
    surveys.save_audit(tmp_path, audited("0.9", *versions["0.9"]))
    assert (tmp_path / "errata.json").read_bytes() == before
    surveys.save_audit(tmp_path, audited("0.9", A))  # looked at again
    assert sinces(tmp_path)["a"] == ("0.8", None)


def test_packages_have_versions_of_their_own(tmp_path):
    surveys.save_audit(tmp_path, audited("2", A, package="q"))
    surveys.save_audit(tmp_path, audited("1", A))
    assert [(one.package, one.version, one.earlier) for one in surveys.load_audits(tmp_path)] == [
        ("p", "1", []),
        ("q", "2", []),
    ]
    text = "\n".join(overview.errata_page(surveys.load_audits(tmp_path)))
    assert "In the package: since 1, the first version that was audited." in text


def test_the_page_names_the_version_before(tmp_path):
    for version, found in (("1.0", []), ("1.1", [A])):
        surveys.save_audit(tmp_path, audited(version, *found))
    text = "\n".join(overview.errata_page(surveys.load_audits(tmp_path)))
    assert "In the package: since 1.1; 1.0 does not have it." in text
    assert "| p | 1.1 | 5 | 1 | 0 | 1, since 1.0 |" in text


# another Python


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory):
    """The Python of another environment with msgspec in it, and its folder for packages."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    ask = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = Path(subprocess.run([python, "-c", ask], capture_output=True, text=True, check=True).stdout.strip())
    (packages / "msgspec").symlink_to(Path(msgspec.__file__).parent)
    return python, packages


def put(packages, text, version="7.5"):
    """A package in the place of tensor-layouts, and no compiled text of one from the same second."""
    shutil.rmtree(packages / "__pycache__", ignore_errors=True)
    (packages / "tensor_layouts.py").write_text(text)
    about = packages / "tensor_layouts-1.dist-info"
    about.mkdir(exist_ok=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: tensor-layouts\nVersion: {version}\n")


@LINUX
def test_a_package_of_another_environment(elsewhere):
    """It, its version, and nothing else of ours but tcprobe."""
    python, packages = elsewhere
    put(packages, "class atoms_nv:\n    pass\n")
    found = json.loads(audit("tensor-layouts", "--python", python, "--json").stdout)
    assert (found["version"], found["of"], found["findings"]) == ("7.5", 0, [])
    for absent in ("numpy", "rich"):  # a text of another length: bytecode is told from it by second and size
        put(packages, f"class atoms_nv:\n    pass\nimport {absent}")
        assert f"No module named '{absent}'" in audit("tensor-layouts", "--python", python, code=3).stderr


@pytest.mark.full
@LINUX
def test_an_answer_from_elsewhere_is_a_strangers(elsewhere):
    python, packages = elsewhere
    put(packages, "while True: pass")
    assert "2 s" in audit("tensor-layouts", "--python", python, "--limit", 2, code=3).stderr
    put(packages, "import os; os._exit(0)")
    with pytest.raises(DataError, match="gave no answer"):
        package_audit.ask("tensor-layouts", 60, python)
    put(packages, "class atoms_nv:\n    pass\n", version="9\x1b[2J")
    version, _ = package_audit.ask("tensor-layouts", 60, python)
    assert version.isprintable()


@LINUX
def test_what_is_no_environment_for_a_package(elsewhere, tmp_path):
    python, packages = elsewhere
    (packages / "tensor_layouts.py").unlink(missing_ok=True)
    done = audit("tensor-layouts", "--python", python, code=3)
    assert f"No module named 'tensor_layouts'. It needs: {python} -m pip install tensor-layouts msgspec." in done.stderr
    assert "exist" in audit("tilus", "--python", tmp_path / "none", code=2).stderr
    assert "--python needs a PACKAGE" in audit("--python", python, code=2).stderr
    with pytest.raises(EnvironmentUnfitError):
        package_audit.ask("tilus", 60, Path("/bin/ls"))


# the tool


@pytest.mark.full
@LINUX
def test_the_tool_audits_versions_that_it_fetched(tmp_path, monkeypatch, capsys):
    """Each by its own folder, before what is installed; one that cannot be asked is named and left out."""
    place = importlib.util.spec_from_file_location("audits", Path(__file__).parent.parent / "tools" / "audits.py")
    tool = importlib.util.module_from_spec(place)
    place.loader.exec_module(tool)
    monkeypatch.setattr(tool, "ROOT", tmp_path)
    monkeypatch.setenv("TCPROBE_AUDITED", str(tmp_path / "cache"))
    for version, text in (
        ("0.9", "class atoms_nv:\n    pass\n"),
        ("0.10", "class atoms_nv:\n    pass\n"),
        ("1.0", "1/0"),
    ):
        folder = tmp_path / "cache" / f"tensor-layouts=={version}"
        folder.mkdir(parents=True)
        put(folder, text, version)
    asked = {version: tool.audit("tensor-layouts", version, None, []) for version in ("0.10", "1.0", "0.9")}
    assert asked == {"0.10": True, "1.0": False, "0.9": True}
    assert capsys.readouterr().out.splitlines() == [
        "tensor-layouts 0.10: audited",
        "tensor-layouts 1.0: not audited",
        "tensor-layouts 0.9: audited",
    ]
    (one,) = surveys.load_audits(tmp_path / "results")
    assert (one.version, [early.version for early in one.earlier]) == ("0.10", ["0.9"])
