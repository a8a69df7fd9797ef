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


PUBLIC = ("__init__.py", "api/__init__.py", "order/__init__.py", "numerics.py")  # what Python programs import


def passed_on(tree):
    """The names of a module's `__all__` that it imports."""
    lists = [n.value for n in tree.body if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == "__all__"]
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    imported = {name.asname or name.name for node in imports for name in node.names}
    return imported & {name for value in lists for name in ast.literal_eval(value)}


def test_all_keeps_no_import_that_nobody_takes():
    """A name is imported where it is used: `__all__` is for what other modules import from this one."""
    texts = {path: path.read_text() for folder in ("tcprobe", "tests") for path in (ROOT / folder).rglob("*.py")}
    idle = []
    for path, text in texts.items():
        if "__all__ = " in text and path not in {ROOT / "tcprobe" / name for name in PUBLIC}:
            module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
            taking = re.compile(rf"from {re.escape(module)} import (\([^)]*\)|.*)")
            taken = {
                name for text in texts.values() for names in taking.findall(text) for name in re.findall(r"\w+", names)
            }
            idle += [f"{module}.{name}" for name in passed_on(ast.parse(text)) - taken]
    assert idle == []


def test_every_package_has_its_place():
    rooms = {
        p.name.removesuffix(".py")
        for p in (ROOT / "tcprobe").iterdir()
        if p.suffix == ".py" or (p / "__init__.py").exists()
    }
    assert rooms - {"__init__", "__main__"} == set(ORDER)
