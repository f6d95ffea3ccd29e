"""Each written token has the advantage that it was trained with, whichever rows the context makes of the turns."""

import pytest
import torch

from verl_patches.token_advantages import token_advantages


@pytest.mark.parametrize("context", ["history", "window:1"])
async def test_tokens_have_the_advantages_of_their_places_in_the_rows(roll, tokens, context):
    trajectory = await roll(context=context)
    assert len(trajectory.turns) > 1
    # The advantage of a token is its id: what comes out must be the ids that were written.
    rows = [torch.tensor(row.response_ids, dtype=torch.float32) for row in trajectory.rows()]
    turns = token_advantages(trajectory, rows, tokens)
    assert [turn["advantage"] for turn in turns] == [turn.written_ids for turn in trajectory.turns]
    assert ["".join(turn["text"]) for turn in turns] == [
        tokens.decode(turn.written_ids) for turn in trajectory.turns
    ]


async def test_rows_of_another_trajectory_are_an_error(roll, tokens):
    trajectory = await roll()
    with pytest.raises(ValueError, match="advantages of"):
        token_advantages(trajectory, [torch.zeros(3)], tokens)
