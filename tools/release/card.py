"""README.md of a release: rendered from what was measured, with metadata that the hub understands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tools.release.errors import ReleaseError
from tools.release.results import THIS, Result

if TYPE_CHECKING:
    from huggingface_hub import CardData, EvalResult

HERE = Path(__file__).parent
CARD = "README.md"
GENERATED = {"world", "reading"}
METRICS = (("em", "exact_match", "Exact match"), ("f1", "f1", "Token F1"))


def model_card(name: str, facts: Mapping[str, Any], results: Sequence[Result]) -> str:
    """The card of a model.

    Args:
        name: of the release's folder.
        facts: as release.json keeps them (`tools.release.model_release`).
        results: evaluations; those of this model go into the metadata too.
    """
    from huggingface_hub import ModelCardData

    own = [result for result in results if result.subject == THIS]
    base = facts["base"]
    metadata = ModelCardData(
        license=base["licence"],
        library_name="transformers",
        pipeline_tag="text-generation",
        base_model=base["hub"],
        tags=["mempo", "agent", "memory", "search", "reinforcement-learning"],
        metrics=[metric for _, metric, _ in METRICS] if own else None,
        model_name=name,
        eval_results=[each for result in own for each in _eval_results(result)] or None,
    )
    return _render(
        "card.md.jinja",
        metadata,
        name=name,
        results=results,
        limits=_limits(facts, own),
        untested=_untested(facts, own),
        searches=bool(facts["agent"]["tags"]),
        **facts,
    )


def data_card(name: str, facts: Mapping[str, Any]) -> str:
    """The card of a data set; `facts` as release.json keeps them (`tools.release.data_release`)."""
    from huggingface_hub import DatasetCardData

    metadata = DatasetCardData(
        license=[licence["identifier"] for licence in facts["licences"]],
        task_categories=["question-answering"],
        tags=["mempo", "multi-hop", "search"],
        size_categories=_size(sum(facts["rows"].values())),
        pretty_name=name,
        configs=facts["configs"],
        dataset_info=facts["features"],
    )
    return _render("data_card.md.jinja", metadata, name=name, **facts)


def card_problems(path: Path) -> list[str]:
    """What is wrong with a card's metadata, as far as huggingface_hub can tell without the hub."""
    from huggingface_hub import ModelCard

    try:
        # Builds the metadata and every result of the model-index anew, and refuses those that are incomplete.
        card = ModelCard.load(path, ignore_metadata_errors=False)
    except FileNotFoundError:
        return [f"{path.name} is missing"]
    except (ValueError, KeyError, TypeError, OSError) as error:
        return [f"{path.name}: the metadata are not valid: {error!r}"]
    return [] if card.data.get("license") else [f"{path.name}: the metadata name no license"]


def _eval_results(result: Result) -> list[EvalResult]:
    from huggingface_hub import EvalResult

    source = "+".join(result.sources)
    return [
        EvalResult(
            task_type="question-answering",
            task_name="Multi-hop questions, answered by searching",
            dataset_type=source,
            dataset_name=f"{source}, {result.summary['n']} held-out questions, context {result.context}",
            dataset_config=result.context,
            dataset_split="validation",
            dataset_args={"sha256": result.settings["data"]["sha256"], "questions": result.summary["n"]},
            metric_type=metric,
            metric_name=title,
            metric_value=round(float(result.summary[key]), 4),
            metric_args={"interval_95": [round(float(end), 4) for end in result.summary[f"{key}_ci"]]},
        )
        for key, metric, title in METRICS
    ]


def _limits(facts: Mapping[str, Any], own: Sequence[Result]) -> list[str]:
    agent = facts["agent"]["agent"]
    said = [
        f"It was trained as the agent `{agent['name']}`: {agent['max_turns']} turns at most, "
        f"{agent['max_context_tokens']} tokens of prompt and response together, context `{agent['context']}`. Other "
        "settings and other uses are outside of what it was trained for.",
        "Its answers are only as good as what it is given to read; it may state what is false.",
    ]
    if {licence["source"] for licence in facts["data"]["licences"]} <= GENERATED:
        said.append(
            "It knows nothing of the real world: questions, pages and vocabulary are those of a generated encyclopedia."
        )
    if own:
        worst = min(own, key=lambda result: float(result.summary["em"]))
        said.append(
            f"Held-out exact match is {worst.summary['em']:.3f} in the context mode in which it does worst "
            f"(`{worst.context}`)."
        )
    return said


def _untested(facts: Mapping[str, Any], own: Sequence[Result]) -> list[str]:
    proof, agent = facts["proof"], facts["agent"]["agent"]
    said = []
    if proof["vllm"] is None:
        said.append("vLLM: not tested; the release was made with `--no-vllm`, so it has never been served.")
    elif proof["vllm"]["device"] == "cpu":
        said.append("Serving on a GPU: vLLM ran on a CPU, in fp32.")
    if proof["questions"] is None:
        said.append("Questions through the agent after the release was written: not tested.")
    elif "compared" not in proof["questions"]:
        said.append(
            "The answers of the served release were not compared with the training side's: there is no evaluation of "
            "the same weights and settings."
        )
    if not own:
        said.append(
            "No evaluation of these weights was given: nothing is known about the quality of its answers."
        )
    if facts["weights"]["dtype"] != facts["weights"]["saved_dtype"]:
        said.append(
            f"The evaluations above are of the {facts['weights']['saved_dtype']} weights; those of this release were "
            f"rounded to {facts['weights']['dtype']} afterwards."
        )
    evaluated = {result.context for result in own}
    if own and agent["context"] not in evaluated:
        said.append(f"The context mode of training, `{agent['context']}`, was not evaluated.")
    said += [
        f"Other seeds: this is one run, with seed {facts['run']['seed']}.",
        "Questions, languages and corpora other than those named under Data; safety and bias.",
    ]
    return said


def _size(rows: int) -> str:
    """The hub's class of size."""
    bounds = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))
    return next((name for bound, name in bounds if rows < bound), "1M<n<10M")


def _render(template: str, metadata: CardData, **fields: Any) -> str:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    # Markdown, not HTML: nothing is escaped; a name that the facts lack is an error instead of a gap.
    environment = Environment(
        loader=FileSystemLoader(HERE), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True,
        keep_trailing_newline=True,
    )  # fmt: skip
    environment.filters["interval"] = _interval
    body = environment.get_template(template).render(version=version("mempo"), **fields)
    return f"---\n{metadata.to_yaml()}\n---\n{body}"


def _interval(summary: Mapping[str, Any], name: str) -> str:
    from eval.report_numbers import with_interval

    return with_interval(summary, name)


def write_card(folder: Path, text: str) -> None:
    """Writes README.md.

    Raises:
        ReleaseError: its metadata are not valid.
    """
    (folder / CARD).write_text(text, encoding="utf-8")
    problems = card_problems(folder / CARD)
    if problems:
        raise ReleaseError("; ".join(problems))
