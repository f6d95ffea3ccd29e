"""The training curve of a card: an SVG file of its own, for hubs show images and run no scripts."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree as ET

from tools.run.metrics import Step

METRICS = (("reward", "trajectory/reward_mean", 0), ("EM", "trajectory/em", 1))
LABEL = 24  # further room on the right: the charts of our pages have short keys there
# The charts of our pages take their colours from the page; a file has to bring its own.
STYLE = (
    "svg{background:#fff;font:12px system-ui,sans-serif}text{fill:#444}.grid{stroke:#e3e3e3}.axis{stroke:#888}"
    ".line{fill:none;stroke-width:2}.c0 .line{stroke:#1b6ca8}.c1 .line{stroke:#c8553d}"
    ".c0 .dot,text.c0{fill:#1b6ca8}.c1 .dot,text.c1{fill:#c8553d}"
)


def curve_svg(steps: Sequence[Step]) -> str | None:
    """Reward and EM of the rollouts over the steps; None if the run logged neither."""
    from eval.pages.chart import HEIGHT, WIDTH, Chart, Point, Series

    series = []
    for key, metric, colour in METRICS:
        points = [Point(step["step"], float(step[metric])) for step in steps if step.get(metric) is not None]
        if points:
            series.append(Series(key, "", points, colour))
    if not series:
        return None
    root = ET.fromstring(str(Chart("Training", "step", "mean over the rollouts", series).svg()))
    root.set("xmlns", "http://www.w3.org/2000/svg")
    root.set("viewBox", f"0 0 {WIDTH + LABEL} {HEIGHT}")
    root.set("width", str(WIDTH + LABEL))
    root.set("height", str(HEIGHT))
    style = ET.Element("style")
    style.text = STYLE
    root.insert(0, style)
    return ET.tostring(root, encoding="unicode") + "\n"
