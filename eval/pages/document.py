"""One HTML file with everything in it: style, script and data inline, and a policy that forbids all else."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from eval.sealed_file import SEAL

HERE = Path(__file__).parent
# Inside a <script> the HTML parser looks for `</script` and `<!--`; as JSON escapes they mean the same text.
_UNSAFE_IN_SCRIPT = {
    ord(char): f"\\u{ord(char):04x}"
    for char in "<>&"
}  # fmt: skip


def environment(folder: Path) -> Environment:
    """Templates of a folder: every value is escaped, a missing one is an error."""
    return Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def document(title: str, body: Markup, *, style: str = "", script: str = "", data: Any = None) -> str:
    """A whole page.

    Args:
        body: markup that a template made.
        style: CSS after the shared one.
        script: JavaScript, run at the end of the page.
        data: JSON types; the script finds them as text in the element `data`.
    """
    whole_style = (HERE / "style.css").read_text(encoding="utf-8") + style
    text = (
        environment(HERE)
        .get_template("document.html.jinja")
        .render(
            title=title,
            seal=SEAL,
            policy=_policy(whole_style, script),
            style=Markup(whole_style),
            body=body,
            data=None if data is None else Markup(embedded_json(data)),
            script=Markup(script),
        )
    )
    return readable(text)


def embedded_json(value: Any) -> str:
    """JSON that may stand inside a <script> element: plain ASCII without `<`, `>` and `&`.

    Lone surrogates and U+2028 become escapes too, as does everything outside of ASCII.
    """
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.translate(_UNSAFE_IN_SCRIPT)


def readable(text: str) -> str:
    """Text that UTF-8 and HTML can hold: lone surrogates and NUL become the replacement character."""
    whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return whole.replace("\0", "\ufffd")


def _policy(style: str, script: str) -> str:
    """Only this very style and script; no network, no form, no frame, no other base address."""
    rules = ["default-src 'none'", f"style-src {_hash(style)}"]
    if script:
        rules.append(f"script-src {_hash(script)}")
    return "; ".join([*rules, "base-uri 'none'", "form-action 'none'"])


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
