"""Recipes compose over verl's own config, and are complete and consistent."""

from __future__ import annotations

from pathlib import Path

import pytest
from hydra import compose, initialize_config_module
from omegaconf import DictConfig, OmegaConf

from mempo.task import Reference, Task
from tools.data.schema import QuestionRow, write_rows
from tools.run.errors import RunError
from tools.run.model import check_model
from tools.run.places import recipes
from tools.run.plan import check, make_plan, ready
from tools.run.settings import find_recipe, load_config
from tools.run.sft import sft_overrides


def test_the_recipes_are_there() -> None:
    assert recipes() == ["cpu", "memagent", "memagent_cpu", "memagent_short", "mempo", "published"]


@pytest.mark.parametrize("name", ["cpu", "mempo", "published"])
def test_every_recipe_passes_its_checks_on_any_machine(name: str, tmp_path: Path) -> None:
    records = tmp_path / "records.json"
    records.write_text("[]")
    config = load_config(find_recipe(name), ["task=hotpotqa", f"task.input={records}"])
    plan = make_plan(config)
    assert plan.problems == []
    assert str(records) in plan.text()


def test_published_differs_from_mempo_in_the_listed_keys_only() -> None:
    ours, theirs = (load_config(find_recipe(name), ["run.name=x"]) for name in ("mempo", "published"))
    for group in ("data", "actor_rollout_ref", "algorithm", "trainer", "run", "task", "search"):
        assert ours[group] == theirs[group], group
    assert (theirs.memory.likelihood, theirs.memory.aliases, theirs.memory.keep_leading_newline) == (
        "independent",
        "first",
        True,
    )
    assert theirs.agent.prompt == "published"
    assert theirs.agent.force_memory_prefix


@pytest.mark.parametrize("name", ["memagent", "memagent_short"])
def test_recipes_that_read_need_documents_and_no_corpus(name: str, tmp_path: Path) -> None:
    config = load_config(find_recipe(name), [f"task.data_dir={tmp_path}"])
    assert any("has no train.parquet, validation.parquet" in problem for problem in check(config))
    for split in ("train", "validation"):
        rows = (
            QuestionRow(Task(f"q{n}", "Who?", document="Ann."), Reference([["Ann"]]), "made", split, n)
            for n in range(config.run.eval_questions)
        )
        write_rows(tmp_path / f"{split}.parquet", rows)
    plan = make_plan(config)
    assert plan.problems == []
    assert "none: the agent does not search" in plan.text()


def test_sizes_of_the_recipes_that_read() -> None:
    published, short, tiny = (
        load_config(find_recipe(name), []) for name in ("memagent", "memagent_short", "memagent_cpu")
    )
    sizes = ("max_observation_tokens", "max_response_tokens", "max_answer_tokens", "max_turns")
    assert [published.agent[name] for name in sizes] == [5000, 1024, 1024, 9]
    assert [short.agent[name] for name in sizes] == [512, 128, 64, 5]
    assert (published.agent.verifier, short.agent.verifier) == ("boxed_exact", "boxed_em")
    assert (published.memory.row_credit, short.memory.row_credit) == ("share", "split")
    assert (published.memory.weight, short.memory.weight, tiny.memory.weight) == (0, 1.0, 0.3)
    assert {config.memory.reference for config in (published, short, tiny)} == {"previous_memory"}
    assert (short.actor_rollout_ref.rollout.n, short.data.shuffle) == (8, False)
    assert tiny.task.name == "reading"


def test_a_rewritten_context_has_no_history_to_compare_with() -> None:
    config = load_config(find_recipe("memagent_cpu"), ["memory.reference=history"])
    assert any(
        "memory.reference is history, but agent.context is rewritten" in text for text in check(config)
    )


def test_published_hyperparameters() -> None:
    config = load_config(find_recipe("published"), [])
    actor, rollout = config.actor_rollout_ref.actor, config.actor_rollout_ref.rollout
    assert (config.data.train_batch_size, rollout.n, rollout.temperature) == (128, 16, 1.0)
    assert (actor.optim.lr, actor.kl_loss_coef, actor.kl_loss_type) == (1e-6, 0.001, "low_var_kl")
    assert (actor.use_kl_loss, actor.clip_ratio, actor.loss_agg_mode) == (True, 0.2, "token-mean")
    assert (config.agent.max_turns, config.trainer.total_training_steps) == (16, 200)


def test_the_task_is_a_group_and_brings_fitting_sizes() -> None:
    world = load_config(find_recipe("cpu"), [])
    real = load_config(find_recipe("cpu"), ["task=hotpotqa", "task.input=questions.json"])
    assert (world.task.name, real.task.name) == ("world", "hotpotqa")
    assert real.agent.max_observation_tokens > world.agent.max_observation_tokens
    assert real.task.input == str(Path("questions.json").absolute())
    assert real.run.name == "cpu-hotpotqa"


def test_overrides_win_over_the_sizes_of_a_task() -> None:
    config = load_config(find_recipe("cpu"), ["agent.max_turns=3", "trainer.total_training_steps=7"])
    assert (config.agent.max_turns, config.trainer.total_training_steps) == (3, 7)


def test_one_seed_sets_what_is_drawn() -> None:
    assert load_config(find_recipe("cpu"), ["seed=7"]).task.seed == 7


def test_a_recipe_of_the_users_own(tmp_path: Path) -> None:
    mine = tmp_path / "mine.yaml"
    mine.write_text("defaults: [cpu, _self_]\nmemory: {weight: 0.25}\n")
    config = load_config(find_recipe(str(mine)), [])
    assert (config.memory.weight, config.run.name) == (0.25, "mine-world")


def test_an_unknown_recipe_names_those_there_are() -> None:
    with pytest.raises(RunError, match="cpu, memagent, memagent_cpu, memagent_short, mempo, published"):
        find_recipe("big")


def test_an_unknown_key_is_named() -> None:
    with pytest.raises(RunError, match=r"memory\.wight is unknown: did you mean memory\.weight"):
        load_config(find_recipe("cpu"), ["memory.wight=1"])


def test_a_run_name_cannot_leave_the_folder() -> None:
    with pytest.raises(RunError, match="run.name"):
        load_config(find_recipe("cpu"), ["run.name=../../x"])


@pytest.fixture(scope="module")
def cpu() -> DictConfig:
    return load_config(find_recipe("cpu"), [])


@pytest.mark.parametrize(
    ("generation", "said"),
    [('{"temperature": 0.6}', "has temperature beside"), ('{"temperature": 0.6, "do_sample": true}', None)],
)
def test_a_generation_config_that_no_checkpoint_could_hold_is_named(
    cpu: DictConfig, tmp_path: Path, generation: str, said: str | None
) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "generation_config.json").write_text(generation)
    config = cpu.copy()
    config.actor_rollout_ref.model.path = str(tmp_path)
    problems = check_model(config)
    assert [said in problem for problem in problems] == ([True] if said else [])


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("run.cold_start", "none", "model.path"),
        ("actor_rollout_ref.actor.ppo_max_token_len_per_gpu", 64, "ppo_max_token_len_per_gpu"),
        ("search.topk", 0, "search.topk is 0, but the agent self_memory searches"),
        ("agent.max_response_tokens", 2000, "agent.max_response_tokens is 2000, but the window"),
        ("actor_rollout_ref.model.path", "./nowhere", "model.path is './nowhere', which does not exist"),
        ("actor_rollout_ref.model.path", "a/b/c", "model.path is 'a/b/c', which does not exist"),
        ("actor_rollout_ref.model.path", "org/name", "not in the hub's cache, and HF_HUB_OFFLINE"),
        ("actor_rollout_ref.model.path", "configs", "a folder without config.json"),
        ("actor_rollout_ref.model.path", "README.md", "a file: give the folder"),
    ],
)
def test_problems_name_their_key(
    cpu: DictConfig, monkeypatch: pytest.MonkeyPatch, root: Path, key: str, value: object, said: str
) -> None:
    monkeypatch.chdir(root)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)  # the run itself sets it
    config = cpu.copy()
    OmegaConf.update(config, key, value, merge=False)
    problems = check(config)
    assert any(said in problem for problem in problems), problems


@pytest.mark.parametrize("task", ["hotpotqa", "parquet"])
def test_a_task_without_its_input_is_a_problem(task: str) -> None:
    problems = check(load_config(find_recipe("cpu"), [f"task={task}"]))
    assert len(problems) == 1
    assert "is not set" in problems[0]


def test_a_gpu_recipe_may_name_a_model_that_only_the_hub_has(monkeypatch: pytest.MonkeyPatch) -> None:
    config = load_config(find_recipe("memagent_short"), [])
    assert check_model(config) == []
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert check_model(config) == [], "what this machine may ask is no fault of the config"
    config.actor_rollout_ref.model.path = "org/nowhere"
    assert any("HF_HUB_OFFLINE keeps this run from the hub" in problem for problem in ready(config))


def test_sft_of_the_gpu_recipe_composes_over_verls_own_config() -> None:
    config = load_config(find_recipe("mempo"), [])
    with initialize_config_module("verl.trainer.config", version_base=None):
        sft = compose("sft_trainer_engine", sft_overrides(config, Path("rows.parquet"), Path("out")))
    assert (sft.model.path, sft.trainer.total_epochs, sft.trainer.n_gpus_per_node) == (
        "Qwen/Qwen2.5-7B",
        1,
        8,
    )
    assert "hf_model" in sft.checkpoint.save_contents
