"""The protocol as it was before the first run: an experiment's folder belongs to one."""

from __future__ import annotations

import json
from typing import Any

from tools.experiment.errors import ExperimentError
from tools.experiment.plan import ExperimentPlan, changed, lines_of
from tools.run.files import write_json

NAME = "protocol.json"


def freeze(plan: ExperimentPlan) -> bool:
    """Writes protocol, hash and the arms' resolved configs on the first start, and compares with them later.

    Returns:
        Whether this was the first start.

    Raises:
        ExperimentError: the protocol, or what it resolves to, is another one; names the keys.
    """
    path = plan.folder / NAME
    now: dict[str, Any] = json.loads(
        json.dumps(
            {"sha256": plan.protocol.sha256, "protocol": plan.protocol.record, "configs": plan.configs},
            default=str,
        )
    )
    if not path.exists():
        plan.folder.mkdir(parents=True, exist_ok=True)
        write_json(path, now)
        return True
    try:
        before = json.loads(path.read_text(encoding="utf-8"))
        same = before["sha256"] == now["sha256"]
        protocol, configs = before["protocol"], before["configs"]
    except (ValueError, KeyError, TypeError) as error:
        raise ExperimentError(f"{path} is not the protocol of an experiment ({error!r})") from error
    remedy = f"Take the change back, or give the new protocol a name or a --dir of its own; {plan.folder} keeps its results."
    if not same:
        lines = "\n".join(f"  {line}" for line in lines_of(changed(protocol, now["protocol"])))
        raise ExperimentError(f"the protocol was changed after it was frozen:\n{lines}\n{remedy}")
    lines = "\n".join(
        f"  arm {arm}: {line}"
        for arm, config in now["configs"].items()
        for line in lines_of(changed(configs.get(arm, {}), config))
    )
    if lines:
        raise ExperimentError(
            f"the protocol is as it was frozen, but its recipe now resolves to something else:\n{lines}\n{remedy}"
        )
    return False
