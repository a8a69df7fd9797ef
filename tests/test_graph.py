"""Graphs of numbered nodes, against what their names mean, on random ones."""

from hypothesis import example, given
from hypothesis import strategies as st

from tcprobe.graph import fixpoint, immediate_post_dominators, natural_loops, predecessors, reached


@st.composite
def graphs(draw):
    count = draw(st.integers(1, 9))
    nodes = st.lists(st.integers(0, count - 1), max_size=3, unique=True).map(tuple)
    return draw(st.lists(nodes, min_size=count, max_size=count))


def ends_from(follows, start, without=()):
    return {n for n in reached(follows, [start], without) if not follows[n]}


@given(graphs())
def test_a_post_dominator_is_on_every_way_to_an_end_and_the_nearest_is_behind_no_other(follows):
    for node, nearest in enumerate(immediate_post_dominators(follows)):
        if not ends_from(follows, node):
            assert nearest == -1
            continue
        others = [n for n in range(len(follows)) if n != node and not ends_from(follows, node, {n})]
        assert (nearest == -1) == (not others)
        if others:
            assert nearest in others
            assert all(not ends_from(follows, nearest, {n}) for n in others if n != nearest)


@given(graphs())
@example([(4, 2), (2,), (4,), (), (2,)])  # entered in two places, and from where nothing comes
def test_a_loop_leads_back_to_its_head(follows):
    for loop in natural_loops(follows):
        inside = [[n for n in nexts if n in loop] if number in loop else [] for number, nexts in enumerate(follows)]
        assert any(loop <= reached(inside, [head]) | {head} for head in loop)
        assert any(n in loop for number in loop for n in follows[number])


@given(graphs())
def test_what_is_reached_is_the_fixpoint_of_being_reached(follows):
    facts = fixpoint(follows, {0: True}, lambda _, fact: fact, lambda a, b: a or b)
    assert set(facts) == reached(follows, [0])
    assert set(fixpoint(follows, {0: True}, lambda _, fact: fact, lambda a, b: a or b, last_first=True)) == set(facts)
    assert predecessors(predecessors_listed(predecessors(follows))) == {
        number: tuple(sorted(nexts)) for number, nexts in enumerate(follows)
    }


def predecessors_listed(before):
    return [before[number] for number in range(len(before))]
