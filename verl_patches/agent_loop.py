"""The one adapter between verl's rollout workers and mempo's agents.

A session never raises: verl only logs an exception, and its async modes then drop the whole question. The cause goes to
the trainer as a record instead, and the session hands over no rows.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

import ray
from verl.experimental.agent_loop.agent_loop import (
    AgentLoopBase,
    AgentLoopMetrics,
    AgentLoopOutput,
    DictConfigWrap,
)
from verl.trainer.ppo.v1.agent_loop_tq import AgentLoopManagerTQ, AgentLoopWorkerTQ

from mempo.pool import pool_in_use
from mempo.reward import judge
from mempo.row_digest import row_digest
from mempo.task import Reference, Task
from mempo.trajectory import Trajectory
from verl_patches.agents import shared_agent
from verl_patches.failures import Failure, cause_of
from verl_patches.language_model import VerlLanguageModel, training_draw, validation_draw
from verl_patches.loader import DRAW
from verl_patches.node_pool import node_pool
from verl_patches.ray_classes import actor_base
from verl_patches.records import (
    TRAIN_PARTITION,
    VALIDATION_PARTITION,
    SessionRecord,
    failure_json,
    put_record,
    session_key,
)

logger = logging.getLogger(__name__)

# verl takes the flag off the batch before it calls an agent loop; the worker below keeps it for the session's task.
_validating: ContextVar[bool] = ContextVar("mempo_validating", default=False)


class MempoAgentLoop(AgentLoopBase):
    """Runs the configured agent on one question, once."""

    def __init__(
        self, trainer_config: DictConfigWrap, server_manager: Any, tokenizer: Any, *args: Any, **kwargs: Any
    ) -> None:
        # Not verl's own __init__: it builds a second tokenisation path from the chat template. Ours is mempo.tokens.
        self.config = trainer_config.config
        self.server_manager = server_manager
        self.tokenizer = tokenizer

    async def run(self, sampling_params: dict[str, Any], **fields: Any) -> list[AgentLoopOutput]:
        """One session.

        Args:
            sampling_params: temperature and the like, from verl.
            fields: the data set's row, the number of its draw, and verl's uid, session_id and global_steps.

        Returns:
            one output per training row; none if the session failed.
        """
        session = session_key(str(fields.get("uid")), int(fields.get("session_id", 0)))
        try:
            outputs, record = await self._roll(session, sampling_params, fields)
            if not _validating.get():
                await put_record(session, record.to_json(), TRAIN_PARTITION)
            return outputs
        except Exception as error:
            logger.exception("session %s of question %s failed", session, _question_id(fields))
            message = f"question {_question_id(fields)}: {type(error).__name__}: {error}"
            failure = Failure(session, cause_of(error), message[:2000])
            await _report(session, failure)
            return []

    async def _roll(
        self, session: str, sampling_params: dict[str, Any], fields: Mapping[str, Any]
    ) -> tuple[list[AgentLoopOutput], SessionRecord]:
        started = time.perf_counter()
        task, reference = Task.from_columns(fields["task"]), Reference.from_columns(fields["reference"])
        agent, tokens = shared_agent(self.config, self.tokenizer)
        number = 0 if _validating.get() else int(fields[DRAW])
        model = VerlLanguageModel(
            self.server_manager,
            sampling_params,
            stop_token_ids=tokens.stop_token_ids,
            seed=int(self.config.seed),
            draw=validation_draw(int(fields["global_steps"]), task.id)
            if _validating.get()
            else training_draw(number),
            session=int(fields["session_id"]),
        )
        with pool_in_use(node_pool(int(self.config.run.pool_processes))):
            trajectory = await agent.run(task, model)
            outcome = await judge(
                trajectory, reference, objectives=str(self.config.task.reward), verifier=agent.verifier
            )
        seconds = {"generate": model.seconds, "session": time.perf_counter() - started}
        record = SessionRecord.of(session, trajectory, reference, agent.probe_format, outcome, 0, seconds)
        outputs = verl_rows(trajectory, record, model.weights)
        record.rows, record.draw = len(outputs), number
        record.row_digests = [_digest(output) for output in outputs]
        return outputs, record


def verl_rows(
    trajectory: Trajectory, record: SessionRecord, weights: tuple[int, int] | None
) -> list[AgentLoopOutput]:
    """A trajectory as verl's outputs: one per row, all with the same fields (verl stacks them into columns).

    Raises:
        ValueError: if the trajectory has no row, or no request told the version of the weights.
    """
    rows = trajectory.rows()
    if not rows or weights is None:
        raise ValueError(
            f"session {record.session}: {len(rows)} rows, weights {weights}: nothing to train on"
        )
    metrics = {"generate_sequences": record.seconds["generate"], "tool_calls": 0.0, "compute_score": 0.0}
    return [
        AgentLoopOutput(
            prompt_ids=row.prompt_ids,
            response_ids=row.response_ids,
            response_mask=row.response_mask,
            response_logprobs=row.logprobs,
            reward_score=record.reward,
            num_turns=len(trajectory.turns),
            metrics=AgentLoopMetrics(**metrics),
            extra_fields={
                "mempo": {
                    "trajectory": record.session,
                    "row": index,
                    "rows": len(rows),
                    "spans": [list(span) for span in row.memory_spans],
                },
                "reward_extra_info": dict(record.scores),
                "min_global_steps": weights[0],
                "max_global_steps": weights[1],
            },
        )
        for index, row in enumerate(rows)
    ]


def _digest(output: AgentLoopOutput) -> str:
    return row_digest(
        output.prompt_ids,
        output.response_ids,
        output.response_mask,
        output.response_logprobs,
        output.extra_fields["mempo"]["spans"],
    )


def _question_id(fields: Mapping[str, Any]) -> str:
    task = fields.get("task")
    return repr(task["id"]) if isinstance(task, Mapping) and "id" in task else "without an id"


async def _report(session: str, failure: Failure) -> None:
    partition = VALIDATION_PARTITION if _validating.get() else TRAIN_PARTITION
    try:
        await put_record(session, failure_json(failure), partition)
    except Exception:
        # The trainer counts a session without a record under `failures/no_record`.
        logger.exception("session %s: the cause of its failure could not be reported", session)


_VerlWorker: Any = actor_base(AgentLoopWorkerTQ)


class _MempoAgentLoopWorker(_VerlWorker):
    """verl's worker, which also tells a session whether it is a validation."""

    async def _run_agent_loop(
        self, sampling_params: dict[str, Any], trajectory: dict[str, Any], **kwargs: Any
    ) -> Any:
        _validating.set(bool(trajectory["validate"]))  # each session is a task with a context of its own
        return await super()._run_agent_loop(sampling_params, trajectory, **kwargs)


class MempoAgentLoopManager(AgentLoopManagerTQ):
    """verl's manager with the worker above; named by `actor_rollout_ref.rollout.agent.agent_loop_manager_class`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.agent_loop_workers_class = ray.remote(_MempoAgentLoopWorker)
