"""A tiny random Qwen2 with a tokenizer trained on the spot, and a handful of questions: all that an end-to-end run needs."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

REPOSITORY = Path(__file__).parents[2]

CHATML = (
    "{%- for message in messages %}"
    "{%- if message.role == 'tool' %}"
    "{{- '<|im_start|>user\\n<tool_response>\\n' + message.content + '\\n</tool_response><|im_end|>\\n' }}"
    "{%- else %}{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}{%- endif %}"
    "{%- endfor %}{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"
)

WORDS = "the of and to in memory answer question search tool result town river king year born city rome paris"


def tiny_tokenizer():
    """A byte-level BPE of about 400 tokens with Qwen's special tokens and a ChatML template."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    turn = "<mem>\nking\n</mem>\n<think>\nking\n</think>\n<search>\nrome\n</search>\n<answer>\nparis\n</answer>\n"
    corpus = [
        WORDS,
        turn,
        "Answer by searching. I have sufficient information to provide the final answers.",
    ] * 50
    core.train_from_iterator(
        corpus,
        trainers.BpeTrainer(
            vocab_size=400, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
        ),
    )
    core.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    core.add_tokens(["<tool_response>", "</tool_response>"])
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        model_max_length=2048,
        chat_template=CHATML,
        clean_up_tokenization_spaces=False,
    )


def build_model(folder: Path) -> None:
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(0)
    tokenizer = tiny_tokenizer()
    tokenizer.save_pretrained(folder)
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=64,  # two heads of 32: vLLM's CPU attention refuses smaller ones
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=2048,
        tie_word_embeddings=True,
        initializer_range=0.3,  # opinions: with the usual 0.02 all answers are equally likely, and every memory the same
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
    )
    Qwen2ForCausalLM(config).to(torch.float32).save_pretrained(folder)


def build_data(folder: Path, questions: int = 14) -> None:
    """`questions` is no multiple of the batch size, so that an epoch drops its rest."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [
        {
            "data_source": "tiny",
            "agent_name": "mempo",
            "prompt": [{"role": "user", "content": f"king of town {index}?"}],
            "task": {"id": f"q{index}", "question": f"king of town {index}?", "objectives": 1},
            "reference": {"answers": [["rome", "city of rome"]], "supporting": ["Rome"]},
            "reward_model": {"style": "rule", "ground_truth": '[["rome"]]'},
            "extra_info": {"index": index, "split": "train", "hops": 1, "type": "tiny"},
        }
        for index in range(questions)
    ]
    pq.write_table(pa.Table.from_pylist(rows), folder / "train.parquet")
    pq.write_table(pa.Table.from_pylist(rows[:2]), folder / "validation.parquet")


def build_root(root: Path) -> None:
    """Everything that `tests/verl_patches/configs/tiny.yaml` expects below `root`."""
    build_model(root / "model")
    build_data(root / "data")


def environment(scratch: Path) -> dict[str, str]:
    """What a CPU run needs to have set; Ray's files go below `scratch` (keep it short: it holds socket paths)."""
    # A folder of the caller's own would take the run's TensorBoard events.
    inherited = {name: value for name, value in os.environ.items() if name != "TENSORBOARD_DIR"}
    return inherited | {
        "PYTHONPATH": str(REPOSITORY),
        "VERL_USE_EXTERNAL_MODULES": "verl_patches.plugin",
        "VERL_PLATFORM": "cpu",
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "TORCHDYNAMO_DISABLE": "1",
        "RAY_memory_monitor_refresh_ms": "0",
        "RAY_TMPDIR": str(scratch),
        "RAY_DEDUP_LOGS": "0",
        "RAY_worker_niceness": "0",  # Ray gives its workers the lowest priority: beside other work they starve
    }
