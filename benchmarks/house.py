"""Figures of the code's structure: python benchmarks/house.py [--at COMMIT]...

Lines, modules, functions, parameters, imports; what one `show` passes through; of the working tree and of any commits,
side by side. A `show` is followed from one function that it enters for the first time to the next.
"""

import argparse
import ast
import io
import re
import statistics
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter, defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SHOWN = ["show", "mma.m16n8k16.row.col.f32.f16.f16.f32.a"]
# run in the tree below argv[1]: the functions of tcprobe that a command enters, with their callers' packages
TRACED = """
import sys
root, words = sys.argv[1], sys.argv[2:]
sys.path.insert(0, root)
sys.argv = ["tcprobe", *words]
inside = root + "/tcprobe/"
entered = {}
def package(name):
    return name[len(inside):].split("/")[0]
def enter(frame, event, arg):
    name = frame.f_code.co_filename
    if event == "call" and name.startswith(inside) and frame.f_code.co_flags & 1:  # no class body
        entered.setdefault((name, frame.f_code.co_qualname))
from tcprobe.__main__ import main
sys.setprofile(enter)
try:
    main()
finally:
    sys.setprofile(None)
    functions = [each for each in entered if "<" not in each[1].split(".")[-1]]
    trip = [package(name) for name, _ in functions]
    changes = sum(a != b for a, b in zip(trip, trip[1:]))
    print(len(functions), len({name for name, _ in functions}), changes, file=sys.stderr)
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--at", action="append", default=[], metavar="COMMIT")
    columns = {}
    for commit in parser.parse_args().at:
        with tempfile.TemporaryDirectory() as folder:
            raw = subprocess.run(
                ["git", "archive", commit, "tcprobe", "results", "tests"], cwd=ROOT, capture_output=True, check=True
            ).stdout
            with tarfile.open(fileobj=io.BytesIO(raw)) as archive:
                archive.extractall(folder, filter="data")
            columns[commit] = figures(Path(folder))
    columns["now"] = figures(ROOT)
    print("| figure |", " | ".join(columns), "|")
    print("|---|" + "--:|" * len(columns))
    for name in columns["now"]:
        print(f"| {name} |", " | ".join(str(of[name]) for of in columns.values()), "|")
    for commit in list(columns)[:-1]:
        stood, new = grown(commit)
        print(f"Of today's lines, {stood} are in files that stood at {commit}, {new} in files made since.")


def figures(root):
    """By name, of the package below `root`."""
    trees = {path.relative_to(root): ast.parse(path.read_text()) for path in sorted((root / "tcprobe").rglob("*.py"))}
    lines = {path: len((root / path).read_text().splitlines()) for path in trees}
    functions = [node for tree in trees.values() for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    sizes = sorted(node.end_lineno - node.lineno + 1 for node in functions)
    counts = sorted(len(parameters(node)) for node in functions)
    types = by_name(functions)
    chain = longest(imports(trees))
    texts = "\n".join((root / path).read_text() for path in trees)
    return {
        "modules": len(trees),
        "lines": sum(lines.values()),
        "lines of PTX, C++, Markdown and text in files beside modules": sum(
            len(path.read_text().splitlines())
            for suffix in ("ptx", "cu", "cuh", "md", "txt")
            for path in (root / "tcprobe").rglob(f"*.{suffix}")
        ),
        "modules of fewer than 60 lines": sum(count < 60 for count in lines.values()),
        "functions": len(functions),
        "lines of a function, median": int(statistics.median(sizes)),
        "lines of a function, 90th percentile": sizes[int(len(sizes) * 0.9)],
        "parameters with self, 90th percentile": counts[int(len(counts) * 0.9)],
        "Any in annotations": sum(
            isinstance(node, ast.Name) and node.id == "Any" for tree in trees.values() for node in ast.walk(tree)
        ),
        "names of parameters with more than 3 types": sum(len(of) > 3 for of in types.values()),
        "most types of one name": max((len(of), name) for name, of in types.items()),
        "fmt: skip": texts.count("# fmt: skip"),
        "longest chain of imports": len(chain),
        "private functions with one reference": sum(once(path, root) for path in trees),
        "assertions of tests; those that compare with prose": ", ".join(map(str, asserted(root))),
        "`show`: functions, files, changes of package": passed(root),
    }


def once(path, root):
    """How many functions of a file begin with _ and have one reference in it beside their definition."""
    tree = ast.parse((root / path).read_text())
    named = Counter(
        node.id if isinstance(node, ast.Name) else node.attr
        for node in ast.walk(tree)
        if isinstance(node, (ast.Name, ast.Attribute))
    )
    private = (node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name[0] == "_")
    return sum(named[name] == 1 for name in private if not name.startswith("__"))


def asserted(root):
    """How many assertions the tests have, and how many compare with a literal of three or more words of English."""
    trees = (ast.parse(path.read_text()) for path in sorted((root / "tests").glob("*.py")))
    found = [node.test for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Assert)]
    return len(found), sum(any(map(is_prose, ast.walk(test))) for test in found)


def is_prose(node):
    """Whether a node is a literal text of three or more words, most of them English; code and selectors are none."""
    if not (isinstance(node, ast.Constant) and isinstance(node.value, str)) or re.search(r"[{};<>#=]|^\.", node.value):
        return False
    words = node.value.split()
    return len(words) > 2 and sum(bool(re.fullmatch(r"[A-Za-z][a-z]+[,.:;]?", word)) for word in words) > len(words) / 2


def passed(root):
    """What a `show` passes through: functions, files, and changes of package from one new function to the next."""
    command = [sys.executable, "-c", TRACED, str(root), *SHOWN]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=root)
    return ", ".join(done.stderr.splitlines()[-1].split())


def grown(commit):
    """Today's lines in files that stood at a commit, perhaps under another name, and in those made since."""
    command = ["git", "diff", "--name-status", "--find-renames=25%", "-l3000", commit, "--", "tcprobe"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    made = {line.split("\t")[1] for line in listed.splitlines() if line.startswith("A\t")}
    stood = new = 0
    for path in (ROOT / "tcprobe").rglob("*.py"):
        count = len(path.read_text().splitlines())
        if str(path.relative_to(ROOT)) in made:
            new += count
        else:
            stood += count
    return stood, new


def parameters(function):
    """All that a function takes."""
    of = function.args
    return [*of.posonlyargs, *of.args, *of.kwonlyargs]


def by_name(functions):
    """The annotations of parameters by their names, without the `| None` of optional ones."""
    types = defaultdict(set)
    for function in functions:
        for parameter in parameters(function):
            if parameter.annotation is not None:
                types[parameter.arg].add(ast.unparse(parameter.annotation).replace(" | None", ""))
    return types


def imports(trees):
    """By module of the package those that it imports when it is imported itself."""
    names = {module(path) for path in trees}
    arrows = {}
    for path, tree in trees.items():
        wanted = set()
        for node in tree.body:
            if isinstance(node, ast.ImportFrom) and node.module:
                wanted |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module}
        arrows[module(path)] = sorted((wanted & names) - {module(path)})
    return arrows


def module(path):
    """The name of a file's module."""
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def longest(arrows):
    """The longest chain of imports; a circle ends it."""

    def depth(name, memo, stack):
        if name in memo:
            return memo[name]
        stack.add(name)
        memo[name] = (name, *max((depth(o, memo, stack) for o in arrows[name] if o not in stack), key=len, default=()))
        stack.discard(name)
        return memo[name]

    memo = {}
    return max((depth(name, memo, set()) for name in arrows), key=len)


if __name__ == "__main__":
    main()
