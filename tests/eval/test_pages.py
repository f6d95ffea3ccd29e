"""The shared pieces of pages: data cannot become markup, the policy allows what is there, charts stay inside."""

from __future__ import annotations

import base64
import hashlib
import json
from xml.etree import ElementTree as ET

import pytest
from markupsafe import Markup

from eval.pages.axis import Axis
from eval.pages.chart import HEIGHT, WIDTH, Chart, Point, Series
from eval.pages.document import document, embedded_json, readable
from eval.pages.table import Table
from tests.eval.recorded import HOSTILE
from tests.parsed_page import ParsedPage


def test_embedded_data_come_back_and_cannot_end_their_element() -> None:
    text = embedded_json([HOSTILE])
    assert json.loads(text) == [HOSTILE]
    assert text.isascii()
    assert not set("<>&") & set(text)


def test_the_policy_allows_this_style_and_script_and_nothing_else() -> None:
    page = ParsedPage(
        document("t", Markup("<p>x</p>"), style="p { color: red }", script="let a = 1 < 2;", data={})
    )
    policy = page.elements[3][1]
    assert policy["http-equiv"] == "Content-Security-Policy"
    rules = dict(rule.split(" ", 1) for rule in str(policy["content"]).split("; "))

    def hashed(text: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    assert rules == {
        "default-src": "'none'",
        "style-src": hashed(page.raw["style"][0]),
        "script-src": hashed(page.raw["script"][1]),
        "base-uri": "'none'",
        "form-action": "'none'",
    }


def test_a_title_is_text() -> None:
    page = ParsedPage(document(HOSTILE, Markup("")))
    assert page.raw["title"] == [readable(HOSTILE)]
    assert page.raw["script"] == []
    assert page.references == []


def test_text_that_utf8_cannot_hold_is_replaced() -> None:
    assert readable("a\ud800b\0c\ud83d\ude00") == "a\ufffdb\ufffdc\U0001f600"


def test_a_cell_cannot_break_a_markdown_table() -> None:
    text = Table("t", ("a|b", "n"), [["x\n| y", "<b>1</b>"]]).markdown()
    assert text.splitlines() == [
        "**t**",
        "",
        "| a\\|b | n |",
        "| :-- | --: |",
        "| x \\| y | \\<b\\>1\\</b\\> |",
    ]


@pytest.mark.parametrize(
    ("values", "ticks"),
    [
        ([0.0, 1.0], [0, 0.5, 1]),
        ([0.0, 0.43], [0, 0.1, 0.2, 0.3, 0.4]),
        ([278.0, 558.0], [300, 400, 500]),
        ([3.0], [2.5, 3.0, 3.5]),
        ([-0.2, 0.2], [-0.2, -0.1, 0, 0.1, 0.2]),
    ],
)
def test_ticks_are_round_and_inside(values: list[float], ticks: list[float]) -> None:
    axis = Axis.over(values, 0, 100, zero=False)
    assert list(axis.ticks) == pytest.approx(ticks)
    assert all(0 <= axis.place(value) <= 100 for value in [*values, *axis.ticks])


def test_labels_of_an_axis_have_the_same_decimals() -> None:
    axis = Axis.over([0.0, 1.0], 0, 100, zero=True)
    assert [axis.label(tick) for tick in axis.ticks] == ["0.0", "0.5", "1.0"]


@pytest.mark.parametrize("kind", ["line", "scatter"])
def test_a_chart_is_drawn_inside_its_frame_and_names_itself(kind: str) -> None:
    points = [Point(1, 0.2, 0.1, 0.3), Point(2, 0.5), Point(4, 0.4, 0.3, 0.5)]
    chart = Chart("EM", "hops", "EM", [Series("A", HOSTILE, points, 0), Series("B", "", [], 9)], kind=kind)  # type: ignore[arg-type]
    svg = ET.fromstring(readable(str(chart.svg())))
    assert svg.get("aria-label", "").startswith("EM. EM over hops. A: 3 points")
    assert "script" not in {element.tag for element in svg.iter()}
    dots = [(float(dot.get("cx", "")), float(dot.get("cy", ""))) for dot in svg.iter("circle")]
    assert len(dots) == 3
    assert all(0 < x < WIDTH and 0 < y < HEIGHT for x, y in dots)
    assert dots[0][1] > dots[2][1] > dots[1][1]  # larger values stand higher


def test_intervals_are_shaded_only_where_they_are_known() -> None:
    points = [Point(1, 0.2, 0.1, 0.3), Point(2, 0.2, 0.1, 0.3), Point(3, 0.5), Point(4, 0.4, 0.3, 0.5)]
    svg = ET.fromstring(str(Chart("t", "x", "y", [Series("A", "a", points, 0)]).svg()))
    assert [len(str(band.get("points")).split()) for band in svg.iter("polygon")] == [4, 2]


def test_a_chart_without_points_is_an_error() -> None:
    with pytest.raises(ValueError, match="no points"):
        Chart("t", "x", "y", [Series("A", "a", [], 0)]).svg()
