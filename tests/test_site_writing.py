"""`tcprobe site`: what it writes takes the place of a site only, whole or not at all."""

import pytest
from click.testing import CliRunner
from site_pages import facts, pages

from tcprobe.cli import main


def site(*arguments):
    return CliRunner().invoke(main, ["site", *map(str, arguments)])


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A site that is made at once."""
    monkeypatch.setattr("tcprobe.pages.site.build.build", lambda facts: {"index.html": "new", "f/a.html": "a"})
    monkeypatch.setattr("tcprobe.pages.site.facts.gather", lambda layers: None)
    return tmp_path / "site"


def files(folder):
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())


def test_a_site_takes_the_place_of_one_written_before(small):
    assert site("-o", small).exit_code == 0
    (small / "f" / "a.html").write_text("old")
    assert site("-o", small).exit_code == 0
    assert (small / "f" / "a.html").read_text() == "a"
    assert files(small) == [".tcprobe-site", "f/a.html", "index.html"]
    assert [p.name for p in small.parent.iterdir()] == ["site"]


def test_an_empty_folder_is_taken_and_a_foreign_one_keeps_its_files(small):
    small.mkdir()
    assert site("-o", small).exit_code == 0
    (small / "notes.txt").write_text("mine")
    done = site("-o", small)
    assert done.exit_code == 2
    assert "'notes.txt'" in done.stderr
    assert (small / "notes.txt").read_text() == "mine"
    other = small.parent / "other"
    other.mkdir()
    (other / "index.html").write_text("mine")
    assert site("-o", other).exit_code == 2
    assert files(other) == ["index.html"]
    assert (other / "index.html").read_text() == "mine"


def test_a_file_of_that_name_and_a_folder_that_cannot_be_written_are_named(small):
    small.write_text("mine")
    assert site("-o", small).exit_code == 2
    assert small.read_text() == "mine"
    assert site("-o", small / "inside").exit_code in (2, 3)


def test_what_fails_half_way_leaves_the_old_site(small, monkeypatch):
    assert site("-o", small).exit_code == 0

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tcprobe.pages.site.write._fill", fail)
    done = site("-o", small)
    assert done.exit_code == 3
    assert "space" in done.stderr
    assert files(small) == [".tcprobe-site", "f/a.html", "index.html"]
    assert [p.name for p in small.parent.iterdir()] == ["site"]


def test_a_folder_of_results_without_measurements_is_a_mistake(tmp_path):
    (tmp_path / "r").mkdir()
    assert site("-o", tmp_path / "s", "--results", tmp_path / "r").exit_code == 2
    assert site("-o", tmp_path / "s", "--results", tmp_path / "none").exit_code == 2
    assert not (tmp_path / "s").exists()


def test_the_command_writes_every_file(tmp_path, monkeypatch):
    monkeypatch.setattr("tcprobe.pages.site.build.build", lambda facts: pages())
    monkeypatch.setattr("tcprobe.pages.site.facts.gather", lambda layers: facts())
    done = site("-o", tmp_path / "site")
    assert done.exit_code == 0, done.output
    assert set(files(tmp_path / "site")) == {".tcprobe-site", *pages()}
