"""CONTRIBUTING's list of words to avoid: none of them in the README, docs/, or the help of a command."""

import re
from pathlib import Path

import click
import pytest
from test_options import commands

ROOT = Path(__file__).parent.parent
RULES = (ROOT / "CONTRIBUTING.md").read_text("utf-8").partition("## Words")[2]
AVOIDED = [word for row in re.findall(r"^\| (`.*?) \| ", RULES, re.MULTILINE) for word in re.findall(r"`(.+?)`", row)]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def found(text):
    """The words of the list that a text has; blocks of code and their output are others' words."""
    prose = " ".join(re.sub(r"```.*?```", "", text, flags=re.DOTALL).split())
    return [word for word in AVOIDED if re.search(rf"\b{re.escape(word)}\b", prose, re.IGNORECASE)]


def test_the_list_is_there():
    assert len(AVOIDED) >= 12
    assert found("numbers that betray where it goes") == ["betray"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_page_has_them(page):
    assert found(page.read_text("utf-8")) == []


PACKAGES = sorted({path.parent for path in (ROOT / "tcprobe").rglob("*.py")})


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)
def test_no_module_has_them(package):
    """In messages, docstrings and comments."""
    assert {path.name: words for path in package.glob("*.py") if (words := found(path.read_text("utf-8")))} == {}


def test_no_help_has_them():
    texts = {name: command.get_help(click.Context(command, info_name=name)) for name, command in commands()}
    assert {name: words for name, text in texts.items() if (words := found(text))} == {}
