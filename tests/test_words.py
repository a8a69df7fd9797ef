"""A parameter's name has one meaning: how many types it has in the package, which may only become fewer.

`pytest --update-golden` lowers the numbers of golden/words.json after a renaming, and raises none.
"""

import ast
import json
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ALLOWED = Path(__file__).parent / "golden" / "words.json"
ENOUGH = 3  # types of a name that is not listed


def types():
    """By name of a parameter the types that it is annotated with."""
    trees = [ast.parse(path.read_text("utf-8")) for path in (ROOT / "tcprobe").rglob("*.py")]
    functions = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return runpy.run_path(str(ROOT / "benchmarks" / "house.py"))["by_name"](functions)


def test_no_name_gets_more_meanings(request):
    allowed, named = json.loads(ALLOWED.read_text()), types()
    if request.config.getoption("--update-golden"):
        fewer = {name: min(most, len(named[name])) for name, most in allowed.items() if len(named[name]) > ENOUGH}
        ALLOWED.write_text(json.dumps(fewer, indent=1, sort_keys=True) + "\n")
        return
    more = {name: sorted(of) for name, of in named.items() if len(of) > allowed.get(name, ENOUGH)}
    assert not more, "give the new parameter a name of its own"


@pytest.mark.full
def test_figures_of_the_house_stay():
    """Those that were reached: what is Any, how long a chain of imports is, and how long a file."""
    reached = runpy.run_path(str(ROOT / "benchmarks" / "house.py"))["figures"](ROOT)
    assert reached["Any in annotations"] < 150
    assert reached["longest chain of imports"] <= 18
    assert reached["files of more than 350 lines"] == 0
