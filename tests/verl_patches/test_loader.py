"""The order of questions depends on the seed and on how many were asked, and on nothing else."""

from itertools import islice

import pytest

from verl_patches.loader import DRAW, SeededLoader


def questions_of(row):
    return row["question"]


def loader(seed=1, questions=7, batch=2, shuffle=True):
    rows = [{"question": index} for index in range(questions)]
    return SeededLoader(rows, batch, lambda row: tuple(map(questions_of, row)), seed=seed, shuffle=shuffle)


def asked(source, batches):
    """What verl's trainer fetches: it starts a new iterator whenever the last one ends."""
    result, iterator = [], iter(source)
    while len(result) < batches:
        try:
            result.append(next(iterator))
        except StopIteration:
            iterator = iter(source)
    return result


def test_each_epoch_asks_different_questions_once_in_an_order_of_its_own():
    batches = asked(loader(), 6)
    first, second = [[q for batch in epoch for q in batch] for epoch in (batches[:3], batches[3:])]
    assert len(set(first)) == len(first) == 6
    assert len(set(second)) == len(second) == 6
    assert first != second


@pytest.mark.parametrize("killed_after", range(8))
def test_a_resumed_run_asks_what_an_unbroken_one_asks(killed_after):
    unbroken = asked(loader(), 8)
    before = loader()
    done = asked(before, killed_after)
    state = before.state_dict()
    asked(before, 1)  # what the killed process fetched after its last checkpoint
    resumed = loader()
    resumed.load_state_dict(state)
    assert done + asked(resumed, 8 - killed_after) == unbroken


@pytest.mark.parametrize(("questions", "batch"), [(7, 2), (4, 4), (5, 3)])
def test_no_two_draws_have_one_number_also_beyond_an_epoch_and_a_resume(questions, batch):
    """Four draws fill a step here: it crosses epochs, and asks questions twice."""

    def draws(source, batches):
        return [(row["question"], row[DRAW]) for drawn in asked(source, batches) for row in drawn]

    def numbered():
        rows = [{"question": index} for index in range(questions)]
        return SeededLoader(rows, batch, list, seed=1, shuffle=True)

    unbroken = draws(numbered(), 8)
    assert [number for _, number in unbroken] == list(range(8 * batch))
    assert len({question for question, _ in unbroken}) < len(unbroken)
    before = numbered()
    done = draws(before, 3)
    resumed = numbered()
    resumed.load_state_dict(before.state_dict())
    assert done + draws(resumed, 5) == unbroken


def test_the_draw_is_not_written_into_the_data():
    rows = [{"question": 0}, {"question": 1}]
    next(iter(SeededLoader(rows, 2, list, seed=1, shuffle=True)))
    assert rows == [{"question": 0}, {"question": 1}]


def test_the_seed_sets_the_order():
    assert asked(loader(seed=1), 3) == asked(loader(seed=1), 3)
    assert asked(loader(seed=1), 3) != asked(loader(seed=2), 3)


def test_without_shuffling_the_order_is_the_files():
    assert list(islice(loader(shuffle=False), 3)) == [(0, 1), (2, 3), (4, 5)]


@pytest.mark.parametrize(
    ("change", "named"),
    [({"seed": 2}, "seed"), ({"batch": 3}, "batch_size"), ({"questions": 8}, "questions")],
)
def test_a_state_of_other_data_is_refused(change, named):
    with pytest.raises(ValueError, match=named):
        loader(**change).load_state_dict(loader().state_dict())


def test_too_few_questions_are_refused():
    with pytest.raises(ValueError, match="fewer than one batch"):
        loader(questions=1)
