"""The JSON report keeps its schema, holds finite numbers only, and says null for what was not
measured."""

from __future__ import annotations

import copy
import json
import math
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.verify import reports
from torchlint.verify.model import Counts, Expected, Level, Report, Speed, Status, Verdict
from torchlint.verify.output import json_report

SCHEMA = json.loads(
    Path(json_report.__file__).with_name("verify-report.schema.json").read_text(encoding="utf-8")
)
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def _no_constant(name: str) -> None:
    raise AssertionError(f"{name} is not JSON")


def loaded(report: Report) -> Any:
    """Return the report as a strict parser reads it."""
    return json.loads(json_report.render(report), parse_constant=_no_constant)


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("name", reports.SAMPLES)
def test_every_report_keeps_the_schema(name: str) -> None:
    VALIDATOR.validate(loaded(reports.SAMPLES[name]))


@pytest.mark.parametrize("name", reports.SAMPLES)
def test_one_ascii_document_with_a_final_newline(name: str) -> None:
    text = json_report.render(reports.SAMPLES[name], color=True)
    assert text.isascii()
    assert text.endswith("}\n")
    assert "\x1b" not in text


def test_a_lone_surrogate_is_spelled_out() -> None:
    where = loaded(reports.HOSTILE_NAMES)["variants"][1]["where"]
    assert where == "caf\\udce9.py:3"


def test_unbounded_ends_are_null() -> None:
    speed = loaded(reports.FEW_PAIRS)["variants"][0]["speed"]
    assert (speed["ci95"], speed["ci99"], speed["n"]) == ([None, None], [None, None], 5)
    assert speed["ratio"] == 1.4


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_numbers_that_json_lacks_are_null(value: float) -> None:
    speed = Speed(Verdict.INCONCLUSIVE, reports.ratio(1, 1, 1), value, 1.0, value)
    found = loaded(reports.only(speed=speed))["variants"][0]["speed"]
    assert (found["before_ms"], found["after_ms"], found["cpu_ratio"]) == (None, 1.0, None)


def test_what_was_not_measured_is_null() -> None:
    found = loaded(reports.only(reports.UNRUN))["variants"][0]
    assert [found[key] for key in ("counts", "memory", "equivalence")] == [None, None, None]
    assert [found["speed"][key] for key in ("ratio", "ci95", "p", "n", "basis", "clock")] == [
        None
    ] * 6
    assert found["exercised"] is False


def test_an_unavailable_ledger_has_no_zeros() -> None:
    found = loaded(reports.UNCOUNTED)["variants"][0]["counts"]
    assert found["unavailable"] == "torch.cuda.Stream is not simulated"
    assert [found[key] for key in ("steps", "syncs", "h2d_bytes", "d2h_bytes", "staged")] == [
        None
    ] * 5


def test_zeros_beside_a_reason_are_not_believed() -> None:
    zeros = Counts(
        "virtual-cuda", 20, (0.0, 0.0), (0.0, 0.0), (0.0, 0.0), (0.0, 0.0), unavailable="a gap"
    )
    document = loaded(reports.only(counts=zeros))
    assert document["variants"][0]["counts"]["syncs"] is None
    VALIDATOR.validate(document)


@pytest.mark.parametrize(
    ("report", "label", "basis"),
    [(reports.SCRIPT, "predicted", "cpu"), (reports.CUDA, "observed", "cuda")],
)
def test_numbers_say_where_they_come_from(report: Report, label: str, basis: str) -> None:
    found = loaded(report)["variants"][0]
    assert (found["counts"]["label"], found["speed"]["basis"], found["speed"]["clock"]) == (
        label,
        basis,
        "wall",
    )


def test_the_words_of_the_schema_are_those_of_the_model() -> None:
    defs = SCHEMA["$defs"]
    equivalence = defs["equivalence"]["properties"]
    assert defs["speed"]["properties"]["verdict"]["enum"] == [each.value for each in Verdict]
    assert defs["variant"]["properties"]["status"]["enum"] == [each.value for each in Status]
    assert equivalence["level"]["enum"] == [each.value for each in Level]
    assert equivalence["expected"]["enum"] == [each.value for each in Expected]


@pytest.mark.parametrize(
    "path",
    [
        ("schema_version",),
        ("env", "device"),
        ("variants", 0, "speed", "verdict"),
        ("variants", 0, "counts", "label"),
        ("variants", 0, "blocks_ns", 0, 1),
    ],
    ids=str,
)
def test_the_schema_refuses_other_values(path: tuple[str | int, ...]) -> None:
    document = copy.deepcopy(loaded(reports.SCRIPT))
    *above, last = path
    inner: Any = document
    for key in above:
        inner = inner[key]
    inner[last] = "something else"
    assert not VALIDATOR.is_valid(document)


def test_the_schema_refuses_zeros_of_an_unavailable_ledger() -> None:
    document = loaded(reports.UNCOUNTED)
    document["variants"][0]["counts"]["syncs"] = [0, 0]
    assert not VALIDATOR.is_valid(document)


def test_the_schema_refuses_unknown_keys() -> None:
    assert not VALIDATOR.is_valid({**loaded(reports.SCRIPT), "more": 1})
