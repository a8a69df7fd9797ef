"""The driver's linker, by a stub of its library: what is refused, and what cannot compile at all."""

import ctypes

import pytest

from tcprobe.errors import EnvironmentUnfitError
from tcprobe.run import driver


class Library:
    """A driver on which making or completing a link fails, with or without a log."""

    def __init__(self, create=0, complete=0, log=b""):
        self.create, self.complete, self.log, self.destroyed = create, complete, log, 0
        self.cuLinkCreate_v2, self.cuLinkDestroy, self.cuGetErrorString = self.created, self.ended, self.said
        self.cuLinkAddData_v2, self.cuLinkComplete = (lambda *_: 0), (lambda *_: self.complete)

    def created(self, count, options, values, state):
        (ctypes.c_char * 64).from_address(values[0]).value = self.log
        return self.create

    def ended(self, state):
        self.destroyed += 1

    def said(self, code, text):
        text._obj.value = b"the driver's words"


@pytest.mark.parametrize(
    ("library", "words"),
    [
        (Library(complete=218, log=b"line 7; error: no"), "line 7; error: no"),
        (Library(complete=2, log=b"line 7; error: no"), "line 7; error: no"),
        (Library(complete=218), "the driver's words (CUresult 218)"),
        (Library(create=1), "cuLinkCreate: the driver's words (CUresult 1)"),
    ],
)
def test_a_module_is_refused_in_the_compilers_words(library, words, monkeypatch):
    monkeypatch.setattr(driver, "_library", lambda *names: library)
    assert driver.assemble(b"") == (b"", words)
    assert library.destroyed == (not library.create)


@pytest.mark.parametrize("library", [Library(create=2), Library(complete=221), Library(create=201)])
def test_what_cannot_compile_blames_no_kernel(library, monkeypatch):
    monkeypatch.setattr(driver, "_library", lambda *names: library)
    with pytest.raises(EnvironmentUnfitError, match="the driver cannot compile: the driver's words"):
        driver.assemble(b"")
    assert library.destroyed == (not library.create)
