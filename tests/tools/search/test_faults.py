"""What goes wrong between agents and their search server costs time, and no trajectory."""

import asyncio
import json
import random
import threading

import pytest
import uvicorn
from fastapi import FastAPI, Request, Response

from mempo.trajectory import StopReason
from tests.mempo.support import (
    ANSWER_TURN,
    SEARCH_TURN,
    TASK,
    ScriptedModel,
    make_agent,
    small_tokens,
)
from tools.search.client import SearchClient
from tools.search.process import SearchProcess

TOKENS = small_tokens()


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "corpus.jsonl"
    path.write_text('{"id": "0", "title": "Silent Harbor", "text": "A film by Mira Voss."}\n')
    return path


def searching(number):
    """A first turn whose query no other rollout asks."""
    return SEARCH_TURN.replace("Silent Harbor", f"Silent Harbor {number}")


async def rollouts(client, count, after_first=lambda: None):
    """As many agents as a batch has, each of which searches and then answers; `after_first` runs once some searched."""

    async def one(number):
        await asyncio.sleep(0.02 * number)
        agent = make_agent(TOKENS, search=client)
        model = ScriptedModel(TOKENS, [searching(number), ANSWER_TURN])
        return await agent.run(TASK, model)

    tasks = [asyncio.create_task(one(number)) for number in range(count)]
    await asyncio.wait(tasks[:3])
    await asyncio.to_thread(after_first)
    return await asyncio.gather(*tasks)


def check_all_answered(trajectories):
    assert {trajectory.stop for trajectory in trajectories} == {StopReason.ANSWERED}
    assert {trajectory.turns[0].observation_status for trajectory in trajectories} == {"ok"}
    assert all("Mira Voss" in trajectory.turns[0].observation for trajectory in trajectories)


def test_a_server_that_is_killed_and_comes_back_in_the_middle_of_a_batch_loses_no_trajectory(corpus):
    first = SearchProcess(corpus, deadline_s=60).start()
    second = SearchProcess(corpus, port=first.port, deadline_s=60)

    def kill_and_restart():
        first._child.kill()
        first._child.wait()
        second.start()

    try:
        client = SearchClient(first.url)
        trajectories = asyncio.run(rollouts(client, 40, kill_and_restart))
    finally:
        first.stop()
        second.stop()
    check_all_answered(trajectories)
    assert client.counts["ok"] == 40


def test_three_in_ten_requests_that_fail_at_random_lose_no_search():
    draw = random.Random(0)
    failed = 0
    api = FastAPI()

    @api.post("/retrieve")
    async def retrieve(request: Request) -> Response:
        nonlocal failed
        if draw.random() < 0.3:
            failed += 1
            return Response("broken", 500)
        hit = {"document": {"id": "0", "contents": '"Silent Harbor"\nA film by Mira Voss.'}, "score": 1.0}
        return Response(json.dumps({"result": [[hit]]}), media_type="application/json")

    server = uvicorn.Server(uvicorn.Config(api, port=0, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        pass
    client = SearchClient(f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}")
    try:
        trajectories = asyncio.run(rollouts(client, 40))
    finally:
        server.should_exit = True
        thread.join(10)
    check_all_answered(trajectories)
    assert failed > 5


def test_a_server_that_is_gone_costs_searches_and_no_trajectory():
    client = SearchClient("http://127.0.0.1:9", retries=1, deadline_s=2)
    trajectories = asyncio.run(rollouts(client, 4))
    assert {trajectory.stop for trajectory in trajectories} == {StopReason.ANSWERED}
    assert {trajectory.turns[0].observation_status for trajectory in trajectories} == {"failed"}
