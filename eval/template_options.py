"""Options of the model's chat template as the command line gives them: `enable_thinking=false` (Qwen3)."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from jinja2 import Environment
from jinja2.meta import find_undeclared_variables

from eval.errors import EvalError

OPTION = "--chat-template-option"
# What transformers hands to every template besides the arguments of `apply_chat_template`.
_GIVEN = ("messages", "raise_exception", "strftime_now")
_GENERATION = re.compile(r"\{%-?\s*(end)?generation\s*-?%\}")


def parse_template_options(given: Sequence[str]) -> dict[str, Any]:
    """`NAME=VALUE` by name; a value is JSON where it reads as JSON, also with Python's capitals, and text otherwise.

    Raises:
        EvalError: one is not of this form, its value is none at all, or a name is given twice.
    """
    options: dict[str, Any] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier():
            raise EvalError(f"{OPTION} is {text!r}; write NAME=VALUE, e.g. enable_thinking=false")
        if name in options:
            raise EvalError(f"{OPTION} {name} is given twice; leave one out")
        if value.lower() in ("none", "null"):
            # As text it would be true to a template; as no value, settings could not tell it from an option left out.
            raise EvalError(
                f"{OPTION} {name} is {value}, which is no value: leave it out, write {name}=false, or for the text "
                f"itself '{name}=\"{value}\"'"
            )
        options[name] = _value(value)
    return options


def check_template_options(tokenizer: Any, options: Mapping[str, Any]) -> None:
    """Refuses what would change nothing.

    Raises:
        EvalError: the chat template never asks for a name, or the name is no option of the template but set by us.
    """
    if not options:
        return
    ours = {*_GIVEN, *inspect.signature(tokenizer.apply_chat_template).parameters}
    asked = _variables(str(tokenizer.get_chat_template()))
    for name in options:
        if name in ours:
            raise EvalError(f"{OPTION} {name}: prompts are put together here, which sets it; leave it out")
        if name not in asked:
            raise EvalError(
                f"{OPTION} {name}: the tokenizer's chat template never asks for {name}, so it would change nothing; "
                "leave it out, or correct the name"
            )


def _variables(template: str) -> set[str]:
    """The names that a template takes from outside."""
    # The one tag that transformers adds to Jinja's; what stands inside it counts like the rest.
    plain = _GENERATION.sub("", template)
    return find_undeclared_variables(Environment(extensions=["jinja2.ext.loopcontrols"]).parse(plain))


def _value(text: str) -> Any:
    # "False" as text would be true to a template.
    plain = text.lower() if text.lower() in ("true", "false") else text
    try:
        return json.loads(plain)
    except ValueError:
        return text
