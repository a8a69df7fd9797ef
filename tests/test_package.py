"""The package as it is installed: doctests hold, the wheel carries the tables, nothing needs CuPy."""

import doctest
import importlib
import pkgutil
import re
import subprocess
import sys
import venv
import zipfile
from importlib.metadata import distribution, distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import tcprobe

ROOT = Path(__file__).parent.parent
ALONE = ("__main__", ".live", ".triton_matmul")  # modules that are programs, or need a package that few have
MODULES = [m.name for m in pkgutil.walk_packages(tcprobe.__path__, "tcprobe.") if not m.name.endswith(ALONE)]


@pytest.mark.sampled(9)
@pytest.mark.parametrize("name", MODULES)
def test_doctests(name):
    module = importlib.import_module(name)
    assert doctest.testmod(module).failed == 0
    assert module.__doc__


def test_only_one_file_imports_each_heavy_package():
    owners = {"cupy": {"run/gpu.py"}, "sympy": {"fit/symbolic.py"}, "rich": {"question/terminal.py"}}
    for package, allowed in owners.items():
        pattern = re.compile(rf"^\s*(?:import|from) {package}\b", re.MULTILINE)
        found = {
            p.relative_to(ROOT / "tcprobe").as_posix()
            for p in (ROOT / "tcprobe").rglob("*.py")
            if pattern.search(p.read_text())
        }
        assert found == allowed, package


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """What the wheel puts into a folder of packages."""
    folder = tmp_path_factory.mktemp("wheel")
    how = ["--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(ROOT)]
    subprocess.run([sys.executable, "-m", "pip", "wheel", *how], check=True, capture_output=True)
    (wheel,) = folder.glob("tcprobe-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


@pytest.fixture(scope="module")
def python(installed, tmp_path_factory):
    """The Python of an environment that has the wheel's package and its ordinary dependencies, and nothing else."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder)
    packages = next(folder.rglob("site-packages"))
    (packages / "wheel.pth").write_text(f"{installed}\n")
    (own,) = distributions(path=[str(installed)])
    for name in ordinary(direct(own)):
        for top in {file.parts[0] for file in distribution(name).files or ()} - {"..", "__pycache__"}:
            target = Path(distribution(name).locate_file(top))
            if not (packages / top).exists():
                (packages / top).symlink_to(target, target_is_directory=target.is_dir())
    return next(p for p in (folder / "bin" / "python", folder / "Scripts" / "python.exe") if p.exists())


def direct(package):
    """What a package needs here, extras left out."""
    needed = [Requirement(text) for text in package.requires or ()]
    return {one.name for one in needed if one.marker is None or one.marker.evaluate({"extra": ""})}


def ordinary(names):
    """Packages with all that they need."""
    needed = names.union(*(direct(distribution(name)) for name in names))
    return names if needed == names else ordinary(needed)


def run(python, folder, *words):
    command = [str(python), "-m", "tcprobe", *words]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)


@pytest.mark.full
def test_the_wheel_carries_the_published_tables(installed, python, tmp_path):
    """pip install plus `tcprobe show` is enough: also outside the checkout, without CuPy and what tests need."""
    names = {p.relative_to(installed).as_posix() for p in installed.rglob("*") if p.is_file()}
    tables = {p.relative_to(ROOT / "results").as_posix() for p in (ROOT / "results").rglob("*") if p.is_file()}
    assert {f"tcprobe/published/{name}" for name in tables} <= names
    assert "tcprobe/py.typed" in names
    done = run(python, tmp_path, "show", "wmma.m16n16k16.d.f32")
    assert done.returncode == 0, done.stderr
    assert "((i & 2) << 2) + (lane >> 2)" in done.stdout


@pytest.mark.full
def test_the_wheel_builds_the_site(python, tmp_path):
    """Without Chromium, axe, pytest: what `pip install .` brings is enough."""
    done = run(python, tmp_path, "site", "-o", "site")
    assert done.returncode == 0, done.stderr
    count = int(re.search(r"written: site/index.html, (\d+) files", done.stdout)[1])
    assert count == len([p for p in (tmp_path / "site").rglob("*") if p.is_file() and p.name != ".tcprobe-site"])
    assert count > 4000
