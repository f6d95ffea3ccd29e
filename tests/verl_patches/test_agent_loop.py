"""The adapter: rows with equal fields, a reward from the trajectory, and never an exception."""

import json
from contextlib import closing

import numpy as np
import pytest
import torch
from verl.experimental.agent_loop.agent_loop import DictConfigWrap
from verl.utils.tensordict_utils import list_of_dict_to_tensordict

import verl_patches.agents as agents
from mempo.process_pool import ProcessPool
from mempo.trajectory import restore_prompts
from verl_patches import agent_loop
from verl_patches.failures import Failure, failure_metrics
from verl_patches.records import SessionRecord, parse_record

ROW = {
    "uid": "u",
    "session_id": 1,
    "global_steps": 4,
    "draw": 12,
    "task": {"id": "q7", "question": "king of town 7?", "objectives": 1},
    # As a parquet's list columns arrive.
    "reference": {"answers": np.array([np.array(["rome"], dtype=object)], dtype=object), "supporting": None},
}


@pytest.fixture
def published(monkeypatch):
    """Records that the adapter wrote: [(session, record, partition)]."""
    written = []

    async def put(session, text, partition):
        written.append((session, parse_record(text), partition))

    monkeypatch.setattr(agent_loop, "put_record", put)
    monkeypatch.setattr(agents, "_shared", None)
    return written


@pytest.fixture
def run(compose, tokenizer):
    def start(client, *overrides, **fields):
        loop = agent_loop.MempoAgentLoop(
            trainer_config=DictConfigWrap(compose(*overrides)),
            server_manager=client,
            tokenizer=tokenizer,
            tools=None,
        )
        return loop.run({"temperature": 1.0}, **{**ROW, **fields})

    return start


async def test_one_row_per_turn_of_a_windowed_trajectory(run, fake_client, published):
    outputs = await run(fake_client([71, 72]))
    record = published[0][1]
    assert [output.extra_fields["mempo"]["row"] for output in outputs] == [0, 1]
    assert {output.extra_fields["mempo"]["rows"] for output in outputs} == {2} == {record.rows}
    assert {output.reward_score for output in outputs} == {1.0} == {record.reward}
    assert record.trajectory.final_answer() == "rome"
    for output in outputs:
        assert len(output.response_ids) == len(output.response_mask) == len(output.response_logprobs)
        (turn, start, end) = output.extra_fields["mempo"]["spans"][0]
        assert turn == output.extra_fields["mempo"]["row"]
        assert 0 <= start < end <= len(output.response_ids)


async def test_an_append_only_trajectory_is_one_row(run, fake_client, published):
    outputs = await run(fake_client([71, 72]), "agent.context=history")
    assert len(outputs) == 1
    assert [span[0] for span in outputs[0].extra_fields["mempo"]["spans"]] == [0, 1]
    assert 0 in outputs[0].response_mask, "the observation is not trained"


async def test_the_draw_seeds_a_session_whoever_runs_it_and_whenever(run, fake_client, published):
    """Not the step (async modes draw ahead of it), the uid (random) or the question (a small set asks it again)."""

    async def seeds(**fields):
        client = fake_client([71, 72])
        await run(client, **fields)
        return [request.params["seed"] for request in client.requests]

    first = await seeds()
    assert len(set(first)) == len(first) == 2
    assert await seeds(uid="another", global_steps=5) == first
    again = await seeds(draw=13)
    assert not set(again) & set(first), "the same question, drawn a second time"
    assert not set(await seeds(session_id=2)) & set(first + again)
    assert [record.draw for _, record, _ in published] == [12, 12, 13, 12]
    assert published[0][1].order < published[2][1].order


async def test_a_validation_needs_no_draw(run, fake_client, published, monkeypatch):
    token = agent_loop._validating.set(True)
    try:
        fields = {"draw": None, "global_steps": 0}
        client, later = fake_client([71, 72]), fake_client([71, 72])
        assert await run(client, **fields)
        assert await run(later, **{**fields, "global_steps": 1})
        seeds = [{request.params["seed"] for request in each.requests} for each in (client, later)]
        assert not seeds[0] & seeds[1]
    finally:
        agent_loop._validating.reset(token)


async def test_requests_stop_where_the_models_folder_says_and_such_a_turn_is_complete(
    run, fake_client, published, tokens, tokenizer, tmp_path
):
    """The tokenizer knows one end, `<|im_end|>`; the model folder names a second, and the engine stops at it."""
    second = tokenizer.convert_tokens_to_ids("<|endoftext|>")
    assert second not in tokens.stop_token_ids
    (tmp_path / "generation_config.json").write_text(
        json.dumps({"eos_token_id": [second, tokens.turn_end_id]})
    )
    said = "<mem>\nrome\n</mem>\n<think>\nking\n</think>\n<search>\nrome\n</search>"
    client = fake_client([*tokens.encode_own(said), second])
    plain = [
        "agent.name=self_memory",
        "agent.context=history",
        "search.url=http://127.0.0.1:9",
        "search.deadline_s=0.1",
    ]
    assert await run(client, *plain, f"actor_rollout_ref.model.path={tmp_path}", "search.retries=0")
    assert all(
        request.params["stop_token_ids"] == [second, tokens.turn_end_id] for request in client.requests
    )
    trajectory = published[0][1].trajectory
    assert [turn.finish for turn in trajectory.turns] == ["stop"] * 3
    assert [turn.format_problem for turn in trajectory.turns] == [None] * 3
    assert len(client.requests) == 3


async def test_rows_have_the_same_fields_so_that_verl_can_stack_them(run, fake_client, published):
    outputs = await run(fake_client([71, 72]))
    outputs += await run(fake_client([70]), uid="v")
    dicts = [output.as_dict() for output in outputs]
    assert len({frozenset(fields) for fields in dicts}) == 1
    assert len({frozenset(fields["extra_fields"]) for fields in dicts}) == 1
    infos = [fields["extra_fields"]["reward_extra_info"] for fields in dicts]
    assert all(set(info) == {"acc", "em", "f1", "sub_em", "format_ok"} for info in infos)
    assert all(isinstance(value, float) for info in infos for value in info.values())
    assert {fields["extra_fields"]["max_global_steps"] for fields in dicts} == {3}
    stacked = list_of_dict_to_tensordict(dicts)
    assert stacked["rm_scores"].is_nested or isinstance(stacked["rm_scores"], torch.Tensor)


async def test_an_exception_becomes_a_cause_and_no_row(run, fake_client, published):
    assert await run(fake_client([71], error=ConnectionError("no route")), uid="u") == []
    (session, failure, partition) = published[0]
    assert (session, partition) == ("u_1", "mempo_train")
    assert isinstance(failure, Failure)
    assert failure.cause == "ConnectionError"
    assert "q7" in failure.message
    assert "no route" in failure.message


@pytest.mark.parametrize(
    ("overrides", "fields", "cause"),
    [
        (["agent.fault=all"], {}, "ValueError"),
        (["agent.name=nobody"], {}, "ValueError"),
        (["agent.name=self_memory"], {}, "ValueError"),  # no search server
        (["agent.max_context_tokens=97"], {}, "question_too_long"),
        ([], {"reference": {"answers": [[]]}}, "ValueError"),
        ([], {"task": None}, "TypeError"),
    ],
)
async def test_whatever_breaks_is_reported(run, fake_client, published, overrides, fields, cause):
    assert await run(fake_client([71]), *overrides, **fields) == []
    assert published[0][1].cause == cause


async def test_a_queue_that_is_down_does_not_raise_either(run, fake_client, monkeypatch):
    async def down(*args):
        raise OSError("queue is down")

    monkeypatch.setattr(agents, "_shared", None)
    monkeypatch.setattr(agent_loop, "put_record", down)
    assert await run(fake_client([71])) == []


async def test_validation_reports_failures_only_and_in_a_place_of_its_own(run, fake_client, published):
    token = agent_loop._validating.set(True)
    try:
        assert await run(fake_client([71, 72]))
        assert not published
        assert await run(fake_client([71], error=OSError())) == []
        assert published[0][2] == "mempo_val"
    finally:
        agent_loop._validating.reset(token)


async def test_nothing_of_the_reference_reaches_the_model(run, fake_client, published, tokens):
    client = fake_client([70])
    await run(client, reference={"answers": [["zanzibar"]], "supporting": ["Timbuktu"]})
    shown = " ".join(tokens.decode(request.prompt_ids) for request in client.requests)
    assert "zanzibar" not in shown
    assert "Timbuktu" not in shown


@pytest.mark.parametrize("context", ["history", "window:1"])
async def test_a_record_survives_its_journey(roll, context):
    from mempo.probe import ANSWER_TAG
    from mempo.reward import outcome_reward
    from mempo.task import Reference

    trajectory, reference = await roll(context), Reference([["rome", "Roma"]], ["Rome"])
    outcome = outcome_reward(trajectory, reference)
    record = SessionRecord.of(
        "u_0", trajectory, reference, ANSWER_TAG, outcome, 2, {"generate": 0.1, "session": 0.2}
    )
    arrived = parse_record(record.to_json())
    assert len(json.dumps(json.loads(record.to_json())["trajectory"])) < len(
        json.dumps(trajectory.to_record())
    )
    assert [turn.prompt_ids for turn in arrived.trajectory.turns] == [[], []]
    arrived.trajectory = restore_prompts(arrived.trajectory)
    assert arrived == record


@pytest.mark.parametrize(("answer", "cause"), [("rome", None), ("oslo", "pool_process_died")])
async def test_a_reward_in_the_process_pool(run, fake_client, published, monkeypatch, answer, cause):
    sizes = []
    with closing(ProcessPool(1)) as pool:
        monkeypatch.setattr(agent_loop, "node_pool", lambda processes: sizes.append(processes) or pool)
        own = "+agent.verifier=tests.mempo.rewards:dies_of_a_wrong_answer"
        outputs = await run(fake_client([71, 72]), own, reference={"answers": [[answer]]})
    assert sizes == [2]
    record = published[0][1]
    if cause is None:
        assert {output.reward_score for output in outputs} == {1.0} == {record.reward}
    else:
        assert outputs == []
        assert (record.cause, record.session) == (cause, "u_1")


@pytest.mark.parametrize(
    "name", ["a_nan", "points", "a_one", "half_a_verdict", "a_number", "a_nan_from_the_pool"]
)
async def test_what_is_no_verdict_fails_its_rollout_and_is_never_a_reward(
    run, fake_client, published, monkeypatch, name
):
    with closing(ProcessPool(1)) as pool:
        monkeypatch.setattr(agent_loop, "node_pool", lambda processes: pool)
        assert await run(fake_client([71, 72]), f"+agent.verifier=tests.mempo.rewards:{name}") == []
    failure = published[0][1]
    assert failure_metrics([failure]) == {"failures/total": 1, "failures/bad_verdict": 1}
    assert f"tests.mempo.rewards:{name}" in failure.message
    assert "task 'q7'" in failure.message
