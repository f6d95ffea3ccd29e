"""Options of the model's chat template as the command line gives them: `enable_thinking=false` (Qwen3)."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from eval.errors import EvalError

OPTION = "--chat-template-option"


def parse_template_options(given: Sequence[str]) -> dict[str, Any]:
    """`NAME=VALUE` by name; a value is JSON where it reads as JSON, also with Python's capitals, and text otherwise.

    Raises:
        EvalError: one is not of this form, or a name is given twice.
    """
    options: dict[str, Any] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier():
            raise EvalError(f"{OPTION} is {text!r}; write NAME=VALUE, e.g. enable_thinking=false")
        if name in options:
            raise EvalError(f"{OPTION} {name} is given twice; leave one out")
        options[name] = _value(value)
    return options


def check_template_options(tokenizer: Any, options: Mapping[str, Any]) -> None:
    """Refuses what would change nothing.

    Raises:
        EvalError: the chat template never mentions a name, or the name is no option of the template but set by us.
    """
    ours = {"messages", *inspect.signature(tokenizer.apply_chat_template).parameters}
    template = str(tokenizer.get_chat_template()) if options else ""
    for name in options:
        if name in ours:
            raise EvalError(f"{OPTION} {name}: prompts are put together here, which sets it; leave it out")
        if not re.search(rf"\b{re.escape(name)}\b", template):
            raise EvalError(
                f"{OPTION} {name}: the tokenizer's chat template never mentions {name}, so it would change nothing; "
                "leave it out, or correct the name"
            )


def _value(text: str) -> Any:
    # "False" as text would be true to a template.
    plain = text.lower() if text.lower() in ("true", "false") else text
    try:
        return json.loads(plain)
    except ValueError:
        return text
