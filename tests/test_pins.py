"""What must not change by accident: the text of probes, and which way imports point."""

import ast
import hashlib
import re
from pathlib import Path

from tcprobe.probes import experiments
from tcprobe.probes.experiment import kernels
from tcprobe.probes.multiply import MultiplyExperiment
from tcprobe.sass import tensor

ROOT = Path(__file__).parent.parent
PINS = Path(__file__).parent / "golden" / "probes.txt"
PINNED = frozenset(line.split()[0] for line in PINS.read_text().splitlines())  # experiments that were there before
# from what is known first to what leans on it: a package may import itself and what stands before it
PACKAGES = (ROOT / "ARCHITECTURE.md").read_text().partition("## Core types")[0]
ORDER = tuple(re.findall(r"^\| `(\w+)` \| ", PACKAGES, re.MULTILINE))


def digest(parts):
    """One hash of texts or bytes in order."""
    found = hashlib.sha256()
    for part in parts:
        found.update(part if isinstance(part, bytes) else part.encode())
        found.update(b"\0")
    return found.hexdigest()[:16]


def probe_texts():
    """Hash of the PTX text of every experiment's kernels, and of the kernels that are traced, by id."""
    found = {id_: digest(kernel.text for kernel in kernels(e)) for id_, e in experiments().items()}
    traced = [e.instruction for e in experiments().values() if isinstance(e, MultiplyExperiment)]
    return found | {f"traced.{i.id}": digest([tensor.kernel(i).text]) for i in traced}


def test_no_text_that_was_measured_changes(request):
    """A form more has no pin yet; `pytest --update-golden` adds it, and rewrites pins that are meant to change."""
    pins, found = dict(line.split() for line in PINS.read_text().splitlines()), probe_texts()
    if request.config.getoption("--update-golden"):
        PINS.write_text("".join(f"{id_} {of_text}\n" for id_, of_text in sorted((pins | found).items())))
        return
    assert len(pins) >= 1752
    assert {id_: found.get(id_) for id_ in pins if found.get(id_) != pins[id_]} == {}


def arrows():
    """(importing file, package that it imports) of every import, also those inside functions."""
    for path in sorted((ROOT / "tcprobe").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("tcprobe."):
                yield path.relative_to(ROOT / "tcprobe"), node.module.split(".")[1]
            elif isinstance(node, ast.ImportFrom) and node.module == "tcprobe":
                for name in node.names:
                    if name.name in ORDER:
                        yield path.relative_to(ROOT / "tcprobe"), name.name


def test_imports_point_one_way():
    up = [
        f"{path} imports {package}"
        for path, package in arrows()
        if path.parts[0] != "__main__.py" and ORDER.index(package) > ORDER.index(path.parts[0].removesuffix(".py"))
    ]
    assert up == []


def test_every_package_has_its_place():
    rooms = {
        p.name.removesuffix(".py")
        for p in (ROOT / "tcprobe").iterdir()
        if p.suffix == ".py" or (p / "__init__.py").exists()
    }
    assert rooms - {"__init__", "__main__"} == set(ORDER)
    assert len([r for r in rooms if (ROOT / "tcprobe" / f"{r}.py").exists()]) - 2 <= 6


def alias(node):
    """The name that a statement gives to a type: Ints = NDArray[np.int64]."""
    named = isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id
    types = (ast.Subscript, ast.Name, ast.Attribute, ast.BinOp)
    return named if named and isinstance(node.value, types) and named[0].isupper() and not named.isupper() else None


def test_no_name_of_a_class_or_a_type_stands_for_two_things():
    where = {}
    for path in (ROOT / "tcprobe").rglob("*.py"):
        tree = ast.parse(path.read_text())
        classes = [node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
        for name in (*classes, *filter(None, map(alias, tree.body))):
            where.setdefault(name, []).append(path.relative_to(ROOT).as_posix())
    twice = {name: files for name, files in where.items() if len(files) > 1}
    assert {Path(path).parent.as_posix() for path in twice.pop("Body")} == {"tcprobe/store/kinds"}  # each kind has one
    assert twice == {}
