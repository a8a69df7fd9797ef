"""Work beside this process: its texts come back, and what fails there fails here."""

import os
import threading

import pytest

from tcprobe.system.children import in_second_process

copies = pytest.mark.skipif(
    not hasattr(os, "fork") or (os.cpu_count() or 1) < 2, reason="no copy of a process is made here"
)


@pytest.fixture
def alone(monkeypatch):
    """As where this process has no other threads, whatever the runner of tests has."""
    monkeypatch.setattr(threading, "active_count", lambda: 1)


@copies
def test_texts_come_from_another_process(alone):
    texts = in_second_process(lambda: {"who": str(os.getpid()), "odd": "\udc80 ü \x00", "long": "a" * (1 << 20)})()
    assert int(texts["who"]) != os.getpid()
    assert texts["odd"] == "\udc80 ü \x00"
    assert len(texts["long"]) == 1 << 20


@copies
def test_what_it_raises_is_raised_here(alone):
    def failing():
        raise ValueError("no such page")

    waiting = in_second_process(failing)
    with pytest.raises(ValueError, match="no such page"):
        waiting()


@copies
def test_a_copy_that_is_killed_is_done_again_here(alone):
    here = os.getpid()

    def dying():
        if os.getpid() != here:
            os.kill(os.getpid(), 9)
        return {"who": str(os.getpid())}

    assert in_second_process(dying)() == {"who": str(here)}


def test_other_threads_keep_it_in_this_process():
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    try:
        assert in_second_process(lambda: {"who": str(os.getpid())})() == {"who": str(os.getpid())}
    finally:
        done.set()
        thread.join()
