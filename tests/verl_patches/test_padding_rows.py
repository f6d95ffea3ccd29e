"""Padding rows, as verl makes them, change neither loss nor gradient nor metrics of the chunk reader's rows."""

from functools import partial

import pytest
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM
from verl.trainer.ppo.padding_utils import upsample_batch_to_divisible_size
from verl.utils import tensordict_utils as tu
from verl.utils.config import omega_conf_to_dataclass
from verl.utils.metric import Metric
from verl.workers.utils.losses import ppo_loss

from tests.verl_patches.reading_step import OVERRIDES, StoredRows, rolled, trainer_of
from tests.verl_patches.test_minibatch import cut_like_verl
from verl_patches.minibatch import PADDING, plan_mini_batches
from verl_patches.worker import ROWS_METRIC, counted_loss

RANKS = 2
FIELDS = ("prompts", "responses", "input_ids", "response_mask", "old_log_probs", "ref_log_prob", "advantages")


@pytest.fixture
async def records(tokens):
    return await rolled(tokens)


class Step:
    """The advantages of one step whose rows are laid out for two ranks and two mini-batches, padded by verl or not."""

    def __init__(self, records, tokens, config, monkeypatch, *, padded):
        self.queue = StoredRows(records)
        self.queue.install(monkeypatch)
        self.trainer = trainer_of(config, records, self.queue, tokens)
        row_keys = self.trainer.step_batch.row_keys
        lengths = [[self.queue.tags[key]["seq_len"] for key in keys] for keys in row_keys]
        plan = plan_mini_batches(lengths, 3, RANKS)
        batch = self.queue.batch()
        real = [key for keys in row_keys for key in keys]
        if padded:
            batch = upsample_batch_to_divisible_size(batch, len(plan.layout), tokens.tokenizer.eos_token_id)
        self.padding = [key for key in batch.keys if key not in real]
        self.queue.add_log_probs()
        self.trainer._compute_advantage(batch, {})
        left = iter(self.padding)
        cut = cut_like_verl(plan.layout, RANKS, plan.mini_batches)
        # [mini-batch][rank] → row keys
        self.mini_batches = [
            [
                [next(left) if row == PADDING else real[row] for row in share if padded or row != PADDING]
                for share in shares
            ]
            for shares in cut
        ]


@pytest.fixture
def steps(records, tokens, compose, monkeypatch):
    """The same step without padding rows and with them."""
    config = compose(*OVERRIDES, "memory.row_credit=split")
    # One after the other: each works on the queue that was installed last.
    plain, padded = (Step(records, tokens, config, monkeypatch, padded=padded) for padded in (False, True))
    for key in padded.padding:  # nothing but the mask keeps these from the loss
        padded.queue.rows[key]["advantages"] = torch.tensor([5.0])
    assert len(padded.padding) == 2
    return plain, padded


@pytest.fixture
def update(tokens, compose):
    """Loss, gradients and metrics of verl's loss on some rows: `update(queue, keys, rank_rows, ranks)`."""
    torch.manual_seed(0)
    size = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    model = Qwen2ForCausalLM(
        Qwen2Config(vocab_size=len(tokens.tokenizer), num_key_value_heads=2, initializer_range=0.1, **size)
    )
    actor = omega_conf_to_dataclass(compose(*OVERRIDES).actor_rollout_ref.actor)

    def logprobs(ids):
        """[L]: entry i is about token i + 1, as verl's engines give them."""
        scores = model(input_ids=ids[None]).logits[0].log_softmax(-1)
        return scores.gather(1, ids.roll(-1)[:, None])[:, 0]

    def made(queue, keys, *, tokens_in_all, ranks=1):
        data = queue.get(keys, "train", FIELDS)
        tu.assign_non_tensor(
            data, dp_size=ranks, batch_num_tokens=tokens_in_all, global_batch_size=len(keys) * ranks
        )
        rows = [logprobs(ids) for ids in data["input_ids"].unbind()]
        model.zero_grad()
        loss, metrics = counted_loss(
            model_output={"log_probs": torch.nested.as_nested_tensor(rows, layout=torch.jagged)},
            data=data,
            loss_fn=partial(ppo_loss, actor),
        )
        loss.backward()
        gradients = {name: weight.grad.clone() for name, weight in model.named_parameters()}
        plain = {
            name: float(value.aggregate()) if isinstance(value, Metric) else value
            for name, value in metrics.items()
        }
        return float(loss), gradients, plain

    return made


def joined(shares):
    return [key for share in shares for key in share]


def trained_tokens(queue, keys):
    return int(sum(queue.rows[key]["response_mask"].sum() for key in keys))


def test_loss_gradients_and_metrics_of_a_mini_batch_are_the_same(steps, update):
    plain, padded = steps
    seen = 0
    for without, with_padding in zip(plain.mini_batches, padded.mini_batches, strict=True):
        rows, more = joined(without), joined(with_padding)
        seen += len(more) - len(rows)
        count = trained_tokens(padded.queue, more)
        assert count == trained_tokens(plain.queue, rows)
        loss, gradients, metrics = update(plain.queue, rows, tokens_in_all=count)
        padded_loss, padded_gradients, padded_metrics = update(padded.queue, more, tokens_in_all=count)
        assert loss != 0
        assert padded_loss == pytest.approx(loss, rel=1e-6)
        assert metrics[ROWS_METRIC] == len(rows)
        assert metrics["kl_loss"] > 0
        assert padded_metrics == pytest.approx(metrics, rel=1e-6)
        assert any(gradient.any() for gradient in gradients.values())
        for name, gradient in gradients.items():
            torch.testing.assert_close(padded_gradients[name], gradient, rtol=1e-5, atol=1e-8)
    assert seen == len(padded.padding)


def test_padding_rows_that_were_trained_on_would_be_seen(steps, update):
    _, padded = steps
    keys = joined(padded.mini_batches[-1])
    count = trained_tokens(padded.queue, keys)
    loss, _, metrics = update(padded.queue, keys, tokens_in_all=count)
    for key in padded.padding:
        padded.queue.rows[key]["response_mask"] = torch.ones(1, dtype=torch.int64)
    other, _, other_metrics = update(padded.queue, keys, tokens_in_all=count)
    assert abs(other - loss) > 1e-3
    assert other_metrics[ROWS_METRIC] == metrics[ROWS_METRIC] + len(padded.padding)


def test_over_two_ranks_the_mean_is_what_one_rank_makes_without_padding(steps, update):
    plain, padded = steps
    for without, shares in zip(plain.mini_batches, padded.mini_batches, strict=True):
        rows = joined(without)
        count = trained_tokens(plain.queue, rows)
        loss, gradients, _ = update(plain.queue, rows, tokens_in_all=count)
        made = [update(padded.queue, share, tokens_in_all=count, ranks=RANKS) for share in shares]
        assert sum(each[0] for each in made) / RANKS == pytest.approx(loss, rel=1e-5)
        assert sum(each[2][ROWS_METRIC] for each in made) == len(rows)
        for name, gradient in gradients.items():
            mean = sum(each[1][name] for each in made) / RANKS
            torch.testing.assert_close(mean, gradient, rtol=1e-4, atol=1e-7)


def test_the_step_reports_the_same_though_a_padding_row_copies_a_memory(steps):
    plain, padded = steps
    for key in padded.padding:
        assert padded.queue.rows[key]["extra_fields"]["mempo"]["spans"]
    metrics = plain.trainer.report.metrics()
    assert padded.trainer.report.metrics() == metrics
    assert metrics["memory/scored"] == 6
    assert 0 < metrics["memory/advantage_mass_share"] < 1
    for key, row in plain.queue.rows.items():
        assert torch.equal(padded.queue.rows[key]["advantages"], row["advantages"]), key
