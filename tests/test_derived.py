"""What follows from the results follows: pages, the README's counts, the site's addresses."""

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_the_readme_counts_what_is_there():
    spec = importlib.util.spec_from_file_location("derive", ROOT / "tools" / "derive.py")
    derive = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(derive)
    text = derive.README.read_text("utf-8")
    assert derive.COUNTS.search(text)[0].splitlines()[1:-1] == [derive.counts()]
