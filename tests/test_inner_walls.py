"""Inside the packages that have most files: each file is in one group of ARCHITECTURE.md, and imports point up."""

import ast
import re
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TABLE = (ROOT / "ARCHITECTURE.md").read_text().partition("## Inside the larger packages")[2].partition("\n## ")[0]

ROOMS = ("ask/convert", "ask/path", "ask/reduce", "ask/repack", "isa/names", "isa/rows")
PACKAGES = sorted(path.parent.name for path in (ROOT / "tcprobe").glob("*/__init__.py"))


def groups():
    """By package its groups in order: (name, patterns of files)."""
    by_package = {}
    for line in TABLE.splitlines():
        if line.startswith("| `"):
            package, name, files = (cell.strip() for cell in line.strip("|").split("|"))
            by_package.setdefault(package.strip("`"), []).append((name, files.replace("`", "").split(", ")))
    return by_package


GROUPS = groups()


def rooms(root):
    """The files and folders of a package, without what is imported as the package itself."""
    folders = {path.name for path in root.iterdir() if (path / "__init__.py").exists()}
    return folders | {path.stem for path in root.glob("*.py")} - {"__init__"}


def places(package, root):
    """By file or folder the numbers of the groups that name it."""
    return {
        room: [at for at, (_, wanted) in enumerate(GROUPS[package]) if any(fnmatchcase(room, one) for one in wanted)]
        for room in rooms(root)
    }


def imported(package, root):
    """(importing, imported, file) among the files and folders of a package, also by imports inside functions."""
    known = rooms(root)
    for path in sorted(root.rglob("*.py")):
        own = path.relative_to(root).parts[0].removesuffix(".py")
        for node in ast.walk(ast.parse(path.read_text())):
            module = (getattr(node, "module", None) or "").split(".") if isinstance(node, ast.ImportFrom) else []
            if module[:2] == ["tcprobe", package] and own in known:
                names = [module[2]] if len(module) > 2 else [name.name for name in node.names if name.name in known]
                yield from ((own, name, path.relative_to(root)) for name in names if name != own)


def upward(package, root):
    """The imports of a group further down."""
    at = {room: found[0] for room, found in places(package, root).items() if found}
    return [f"{path} imports {to}" for own, to, path in imported(package, root) if at[to] > at[own]]


@pytest.mark.parametrize("package", GROUPS)
def test_every_file_is_in_one_group_and_every_group_has_files(package):
    found = places(package, ROOT / "tcprobe" / package)
    assert {room: at for room, at in found.items() if len(at) != 1} == {}
    assert {at for of in found.values() for at in of} == set(range(len(GROUPS[package])))


@pytest.mark.full
@pytest.mark.parametrize("package", GROUPS)
def test_imports_point_to_the_groups_above(package):
    root = ROOT / "tcprobe" / package
    assert len(list(imported(package, root))) > 20
    assert upward(package, root) == []


def test_an_import_of_a_group_below_is_noticed(tmp_path):
    for room in rooms(ROOT / "tcprobe" / "probes"):
        (tmp_path / f"{room}.py").touch()
    (tmp_path / "sparse.py").write_text("def late():\n    from tcprobe.probes import cost_moves, ptx\n")
    (tmp_path / "moves.py").write_text("from tcprobe.probes.wgmma_kernels import text\n")
    assert upward("probes", tmp_path) == ["moves.py imports wgmma_kernels", "sparse.py imports cost_moves"]


@pytest.mark.parametrize("package", [*PACKAGES, *ROOMS])
def test_a_package_says_what_each_of_its_files_is(package):
    """In its docstring, by name or with * for any end of one."""
    path = ROOT / "tcprobe" / package
    words = re.findall(r"[a-z_0-9]+\*?", ast.get_docstring(ast.parse((path / "__init__.py").read_text("utf-8"))))
    files = {p.stem for p in path.iterdir() if p.suffix == ".py" or (p / "__init__.py").exists()} - {"__init__"}
    unsaid = {name for name in files if not any(fnmatchcase(name, word) for word in words)}
    assert not unsaid
