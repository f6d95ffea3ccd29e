"""Every request to verl's server carries what decides its answer."""

import pytest

from mempo.agents.base import RolloutError
from verl_patches.language_model import VerlLanguageModel, request_seed, training_draw, validation_draw


def model(client, **changes):
    settings = {"stop_token_ids": [2], "seed": 1, "draw": training_draw(4), "session": 0} | changes
    return VerlLanguageModel(client, {"temperature": 1.0, "top_p": 1.0}, **settings)


async def test_a_request_has_its_limit_its_stops_and_its_seed(fake_client):
    client = fake_client([5, 2])
    written = await model(client).generate([1, 2, 3], max_tokens=7, turn=1)
    params = client.requests[0].params
    assert (written.token_ids, written.logprobs) == ([5, 2], [-0.5, -0.5])
    assert params["max_tokens"] == 7
    assert params["stop_token_ids"] == [2]
    assert params["seed"] == request_seed(1, training_draw(4), 0, 1)
    assert params["logprobs"] is True


async def test_a_session_stays_on_one_server_and_sessions_differ(fake_client):
    client = fake_client([5, 2])
    one, other = model(client), model(client, session=1)
    await one.generate([1], max_tokens=2, turn=0)
    await one.generate([1], max_tokens=2, turn=1)
    await other.generate([1], max_tokens=2, turn=0)
    ids = [request.id for request in client.requests]
    assert ids[0] == ids[1] != ids[2]


def test_seeds_differ_in_every_part_and_are_the_same_everywhere():
    base = (1, training_draw(2), 3, 4)
    draws = [training_draw(9), validation_draw(2, "q"), validation_draw(9, "q"), validation_draw(2, "r")]
    others = [(9, *base[1:]), *((1, draw, 3, 4) for draw in draws), (1, base[1], 9, 4), (1, base[1], 3, 9)]
    assert len({request_seed(*parts) for parts in [base, *others]}) == 8
    assert request_seed(*base) == 187070879981603


async def test_the_versions_of_the_weights_are_kept(fake_client):
    client = fake_client([5, 2], version=3)
    language_model = model(client)
    await language_model.generate([1], max_tokens=2, turn=0)
    client.version = 5
    await language_model.generate([1], max_tokens=2, turn=1)
    assert language_model.weights == (3, 5)


@pytest.mark.parametrize(
    ("ids", "logprobs", "cause"), [([], None, "aborted"), ([5, 2], [-1.0], "no_logprobs")]
)
async def test_half_an_answer_is_a_failed_session(fake_client, ids, logprobs, cause):
    with pytest.raises(RolloutError) as caught:
        await model(fake_client(ids, logprobs)).generate([1], max_tokens=2, turn=0)
    assert caught.value.cause == cause
