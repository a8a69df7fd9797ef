"""Twenty questions that visitors have, each answered on the site from its first page, in so many actions."""

import json
import statistics
from pathlib import Path

import pytest
from site_chromium import PATIENCE, needed, open_, until

pytestmark = needed
QUESTIONS = json.loads((Path(__file__).parent / "data" / "site_questions.json").read_text())


def act(page, action):
    """An action: type into the search, follow its first result, click on what a selector names."""
    what, _, with_ = action.partition(" ")
    if what == "type":
        page.keyboard.press("/")
        page.keyboard.type(with_)
        page.locator("#results a").first.wait_for()
    elif what == "enter":
        until(page, "document.querySelector('#count').textContent.includes('found')")
        page.keyboard.press("Enter")
        until(page, "!location.pathname.endsWith('/index.html')")
        until(page, "document.documentElement.classList.contains('js')")
    else:
        page.locator(with_).first.click()


@pytest.mark.parametrize("asked", QUESTIONS, ids=lambda asked: asked["question"])
def test_a_question_is_answered(page, base, asked):
    """What answers it stands on the page, or in the list of results, where it can be read."""
    page.set_default_timeout(PATIENCE)
    open_(page, base, "index.html")
    assert asked["answer"] not in page.locator("#results").inner_text()
    for action in asked["actions"]:
        act(page, action)
    until(page, "document.documentElement.classList.contains('js')")
    until(page, "answer => document.body.innerText.replace(/\\s+/g, ' ').includes(answer)", arg=asked["answer"])


def test_there_are_twenty_and_two_actions_are_usual():
    assert len(QUESTIONS) == len({one["question"] for one in QUESTIONS}) == 20
    assert statistics.median(len(one["actions"]) for one in QUESTIONS) <= 2
