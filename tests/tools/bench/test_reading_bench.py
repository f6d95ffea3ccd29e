"""Cost is linear in the document's length, and the longest request does not grow."""

import json

import pytest
from typer.testing import CliRunner

from tools.bench.cli import app
from tools.bench.reading import ReadingBench, fits, linear_fit


def test_requests_and_tokens_grow_linearly_and_the_peak_stays() -> None:
    results = list(ReadingBench((2_000, 8_000, 32_000), 500, 100, 50, 0).run())
    for result in results:
        assert result["requests"] == -(-result["document"] // 500) + 1
        assert result["response"] == (result["requests"] - 1) * 100 + 50
    assert {result["peak"] for result in results} == {results[0]["bound"]}
    assert all(fit["r2"] > 0.99999 for fit in fits(results).values())


def test_a_fit_finds_the_line() -> None:
    assert linear_fit([1, 2, 4], [5, 7, 11]) == pytest.approx({"slope": 2, "intercept": 3, "r2": 1})
    assert linear_fit([1, 2, 3], [1, 0, 1])["r2"] == pytest.approx(0)


def test_the_command_prints_results_and_fits() -> None:
    words = ["read", "--tokens", "1000", "--tokens", "3000", "--chunk", "100", "--memory", "10", "--json"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    told = json.loads(result.output)
    assert [entry["requests"] for entry in told["results"]] == [11, 31]
    assert set(told["fits"]) == {"requests", "prompt", "response"}
