"""Line and scatter charts as inline SVG. Built as an element tree, so that no label can become markup."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal
from xml.etree import ElementTree as ET

from markupsafe import Markup

from eval.pages.axis import Axis

# Small enough to be read on a phone at 12 units of text, large enough for seven ticks.
WIDTH, HEIGHT = 440, 270
LEFT, RIGHT, TOP, BOTTOM = 54, 30, 12, 44
COLOURS = 8  # classes c0 to c7 of style.css; further series are dashed
LABEL_GAP = 13


@dataclass(frozen=True)
class Point:
    """A value with its interval, where it has one."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Series:
    """Points under a short key, which stands in the chart, and a name, which stands in the legend."""

    key: str
    name: str
    points: Sequence[Point]
    colour: int

    @property
    def style(self) -> str:
        """Classes of the style sheet."""
        return f"c{self.colour % COLOURS}" + (" dashed" if self.colour // COLOURS % 2 else "")


@dataclass(frozen=True)
class Chart:
    """Series over numbers.

    Attributes:
        kind: `line` joins the points of a series and shades their intervals, from 0 on; `scatter` shows points with
            error bars.
        x_ticks: where x has a tick; None for round whole numbers.
    """

    title: str
    x_label: str
    y_label: str
    series: Sequence[Series]
    kind: Literal["line", "scatter"] = "line"
    x_ticks: Sequence[float] | None = None

    def svg(self) -> Markup:
        """The chart as an `<svg>` element that names and describes itself.

        Raises:
            ValueError: if no series has a point.
        """
        points = [point for series in self.series for point in series.points]
        if not points:
            raise ValueError(f"chart {self.title!r} has no points")
        x, y = self._axes(points)
        root = ET.Element("svg", {"viewBox": f"0 0 {WIDTH} {HEIGHT}", "role": "img", "class": "chart"})
        root.set("aria-label", f"{self.title}. {self.description()}")
        self._draw_axes(root, x, y)
        for series in self.series:
            group = ET.SubElement(root, "g", {"class": series.style})
            ET.SubElement(group, "title").text = f"{series.key} {series.name}".strip()
            (_draw_line if self.kind == "line" else _draw_points)(group, series, x, y)
        self._draw_keys(root, x, y)
        return Markup(ET.tostring(root, encoding="unicode"))

    def description(self) -> str:
        """What the chart shows, in words."""
        shown = [
            f"{series.key}: {len(series.points)} points, last {series.points[-1].y:.3g}"
            for series in self.series
            if series.points
        ]
        return f"{self.y_label} over {self.x_label}. {'; '.join(shown)}."

    def _axes(self, points: Sequence[Point]) -> tuple[Axis, Axis]:
        ends = [point.y for point in points]
        ends += [end for point in points for end in (point.low, point.high) if end is not None]
        span = (LEFT, WIDTH - RIGHT)
        x = (
            Axis.at(self.x_ticks, *span)
            if self.x_ticks
            else Axis.over([point.x for point in points], *span, zero=False, whole=True)
        )
        return x, Axis.over(ends, HEIGHT - BOTTOM, TOP, zero=self.kind == "line")

    def _draw_axes(self, root: ET.Element, x: Axis, y: Axis) -> None:
        for tick in y.ticks:
            place = y.place(tick)
            ET.SubElement(root, "line", _line(LEFT, place, WIDTH - RIGHT, place) | {"class": "grid"})
            _text(root, LEFT - 6, place + 4, y.label(tick), "end")
        for tick in x.ticks:
            _text(root, x.place(tick), HEIGHT - BOTTOM + 17, x.label(tick), "middle")
        base = HEIGHT - BOTTOM
        ET.SubElement(root, "line", _line(LEFT, base, WIDTH - RIGHT, base) | {"class": "axis"})
        _text(root, (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, self.x_label, "middle")
        middle = (TOP + base) / 2
        label = _text(root, 12, middle, self.y_label, "middle")
        label.set("transform", f"rotate(-90 12 {middle:g})")

    def _draw_keys(self, root: ET.Element, x: Axis, y: Axis) -> None:
        """The series' keys beside their last points, pushed apart where lines end together."""
        lasts = sorted((y.place(s.points[-1].y), s.key, s) for s in self.series if s.points)
        above = float("-inf")
        for place, key, series in lasts:
            if self.kind == "line":
                place = max(place, above + LABEL_GAP)
                above = place
            label = _text(root, x.place(series.points[-1].x) + 7, place + 4, key, "start")
            label.set("class", f"key {series.style}")


def _draw_line(group: ET.Element, series: Series, x: Axis, y: Axis) -> None:
    for part in _with_intervals(series.points):
        lows = [(x.place(point.x), y.place(low)) for point, low, _ in part]
        highs = [(x.place(point.x), y.place(high)) for point, _, high in part]
        ET.SubElement(group, "polygon", {"class": "band", "points": _places([*lows, *reversed(highs)])})
    middle = [(x.place(point.x), y.place(point.y)) for point in series.points]
    ET.SubElement(group, "polyline", {"class": "line", "points": _places(middle)})
    if len(middle) <= 20:
        for across, down in middle:
            ET.SubElement(
                group, "circle", {"class": "dot", "cx": f"{across:.1f}", "cy": f"{down:.1f}", "r": "3"}
            )


def _with_intervals(points: Sequence[Point]) -> Iterator[list[tuple[Point, float, float]]]:
    """Stretches of neighbouring points that all have an interval."""
    part: list[tuple[Point, float, float]] = []
    for point in points:
        if point.low is not None and point.high is not None:
            part.append((point, point.low, point.high))
        elif part:
            yield part
            part = []
    if part:
        yield part


def _draw_points(group: ET.Element, series: Series, x: Axis, y: Axis) -> None:
    for point in series.points:
        across, down = x.place(point.x), y.place(point.y)
        if point.low is not None and point.high is not None:
            bar = _line(across, y.place(point.low), across, y.place(point.high))
            ET.SubElement(group, "line", bar | {"class": "bar"})
        dot = ET.SubElement(
            group, "circle", {"class": "dot", "cx": f"{across:.1f}", "cy": f"{down:.1f}", "r": "5"}
        )
        ET.SubElement(dot, "title").text = f"{series.key} {series.name}: {point.x:,.0f}, {point.y:.3f}"


def _places(places: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{across:.1f},{down:.1f}" for across, down in places)


def _line(x1: float, y1: float, x2: float, y2: float) -> dict[str, str]:
    return {"x1": f"{x1:.1f}", "y1": f"{y1:.1f}", "x2": f"{x2:.1f}", "y2": f"{y2:.1f}"}


def _text(root: ET.Element, x: float, y: float, text: str, anchor: str) -> ET.Element:
    element = ET.SubElement(root, "text", {"x": f"{x:.1f}", "y": f"{y:.1f}", "text-anchor": anchor})
    element.text = text
    return element
