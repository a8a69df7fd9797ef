"""CONTRIBUTING's lists of words to avoid: none of the first anywhere, none of the second in what users read."""

import ast
import re
from pathlib import Path

import click
import pytest
from test_options import commands

ROOT = Path(__file__).parent.parent
GUIDE, _, RULES = (ROOT / "CONTRIBUTING.md").read_text("utf-8").partition("## Words")


def _listed(rules):
    return [word for row in re.findall(r"^\| (`.*?) \| ", rules, re.MULTILINE) for word in re.findall(r"`(.+?)`", row)]


EVERYWHERE, READ = map(_listed, RULES.split("\n\nThese are harmless", 1))
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def _any(words):
    return re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, words))})(?![\w-])", re.IGNORECASE)


ANYWHERE, ALL = _any(EVERYWHERE), _any([*EVERYWHERE, *READ])


def found(text, avoided=ALL):
    """The words of the lists that a text has; blocks of code and their output are others' words."""
    return avoided.findall(" ".join(re.sub(r"```.*?```", "", text, flags=re.DOTALL).split()))


def test_the_lists_are_there():
    assert (len(EVERYWHERE) >= 12, len(READ) >= 60) == (True, True)
    assert found("numbers that betray where it goes") == ["betray"]
    assert found("`--split` goes with --bound, and says all of itself") == ["goes with", "says all of itself"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_page_has_them(page):
    assert found(page.read_text("utf-8")) == []


def test_contributing_has_them_in_its_lists_alone():
    assert found(GUIDE) == []


PACKAGES = sorted({path.parent for path in (ROOT / "tcprobe").rglob("*.py")})


def strings(module):
    """The texts of a module that are not docstrings; a value in a text is a number sign."""
    tree = ast.parse(module)
    whole = [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)]
    parts = {id(part) for text in whole for part in text.values}
    stated = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for text in whole:
        yield "".join(part.value if isinstance(part, ast.Constant) else "#" for part in text.values)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts | stated:
            yield node.value


def test_strings_leaves_out_docstrings():
    assert list(strings('"""a"""\nb = f"c {d} e" + "g"\ndef h():\n    """i"""\n')) == ["c # e", "g"]


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)
def test_no_module_has_them(package):
    """Those of the first list in messages, docstrings and comments; those of the second in messages."""
    texts = {path.name: path.read_text("utf-8") for path in package.glob("*.py")}
    assert {name: words for name, text in texts.items() if (words := found(text, ANYWHERE))} == {}
    said = {name: [(words, line) for line in strings(text) if (words := found(line))] for name, text in texts.items()}
    assert {name: lines for name, lines in said.items() if lines} == {}


@pytest.mark.parametrize("page", sorted((ROOT / "tcprobe").rglob("*.html")), ids=lambda page: page.name)
def test_no_page_of_the_site_has_them(page):
    assert found(re.sub(r"<[^>]*>", "", page.read_text("utf-8"))) == []


@pytest.mark.parametrize("script", sorted((ROOT / "tcprobe").rglob("*.js")), ids=lambda script: script.name)
def test_no_script_of_the_site_has_them(script):
    """In its texts; comments are for those who read the script."""
    text = re.sub(r"/\*.*?\*/|(?<!:)//.*", "", script.read_text("utf-8"), flags=re.DOTALL)
    assert found(" ".join(re.findall(r"\"[^\"\n]*\"|`[^`]*`", text))) == []


def test_no_help_has_them():
    texts = {name: command.get_help(click.Context(command, info_name=name)) for name, command in commands()}
    assert {name: words for name, text in texts.items() if (words := found(text))} == {}
