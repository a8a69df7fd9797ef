"""The package as it is installed: doctests hold, the wheel carries the tables, nothing needs CuPy."""

import doctest
import importlib
import pkgutil
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import tcprobe

ROOT = Path(__file__).parent.parent
MODULES = [
    m.name for m in pkgutil.walk_packages(tcprobe.__path__, "tcprobe.") if not m.name.endswith(("__main__", ".live"))
]


@pytest.mark.parametrize("name", MODULES)
def test_doctests(name):
    module = importlib.import_module(name)
    assert doctest.testmod(module).failed == 0
    assert module.__doc__


def test_only_one_file_imports_each_heavy_package():
    owners = {"cupy": {"run/gpu.py"}, "sympy": {"fit/symbolic.py"}, "rich": {"cli/terminal.py"}}
    for package, allowed in owners.items():
        pattern = re.compile(rf"^\s*(?:import|from) {package}\b", re.MULTILINE)
        found = {
            p.relative_to(ROOT / "tcprobe").as_posix()
            for p in (ROOT / "tcprobe").rglob("*.py")
            if pattern.search(p.read_text())
        }
        assert found == allowed, package


@pytest.mark.full
def test_the_wheel_carries_the_published_tables(tmp_path):
    """pip install plus `tcprobe show` is enough: also outside the checkout and without CuPy."""
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--wheel-dir",
        str(tmp_path),
        str(ROOT),
    ]
    subprocess.run(command, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("tcprobe-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        archive.extractall(tmp_path / "site")
    tables = {p.relative_to(ROOT / "results").as_posix() for p in (ROOT / "results").rglob("*") if p.is_file()}
    assert {f"tcprobe/published/{name}" for name in tables} <= names
    assert "tcprobe/py.typed" in names
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path / 'site')!r}); import tcprobe\n"
        "assert 'site' in tcprobe.__file__\n"
        "from tcprobe.cli import main; main(['show', 'wmma.m16n16k16.d.f32'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    assert "((i & 2) << 2) + (lane >> 2)" in done.stdout
