"""What the decorators of a rule keep from its checks, and what they add to their hits."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst
import pytest

from torchlint.rule import Hit, Module, Rule
from torchlint.semantic.project.outside import Outside

TRAIN = """import gc
from gc import collect as tidy

def train(loader, model, optimizer):
    tidy()
    for x in loader:
        try:
            model(x).sum().backward()
        except RuntimeError:
            tidy()
            raise
        optimizer.step()
        tidy()
        other.collect()
"""


def found(rule: Rule, text: str) -> list[tuple[int, bool]]:
    """Return which of the calls in order all checks hit, and whether a hit says why its place is hot."""
    module = Module(cst.parse_module(text), text, "src/train.py", Outside())
    pairs = [(check, node) for kind, check in rule.checks for node in module.nodes(kind)]
    hits = [hit for check, node in pairs for hit in check(node, module)]
    calls = [node for node in module.nodes(cst.Call) if module.code(node) in ("tidy()", "other.collect()")]
    return sorted((calls.index(hit.node) + 1, bool(hit.why_hot)) for hit in hits)


def a_rule(runs: str = "anywhere") -> Rule:
    return Rule(
        "acme.rules.tidy",
        None,
        code="ACME101",
        message="tidy",
        severity="info",
        default=True,
        triggers=(b"collect",),
        runs=runs,
    )


def flag(node: cst.Call, module: Module) -> Iterator[Hit]:
    yield Hit(node)


def test_a_call_is_known_by_its_dotted_name_under_an_alias() -> None:
    rule = a_rule()
    rule.call("gc.collect")(flag)
    assert found(rule, TRAIN) == [(1, False), (2, False), (3, False)]


def test_a_method_is_known_by_its_name() -> None:
    rule = a_rule()
    rule.method("collect")(flag)
    assert found(rule, TRAIN) == [(4, False)]


@pytest.mark.parametrize("runs", ["sample", "hot", "step", "train"])
def test_only_what_runs_often_enough_is_seen_and_says_why_and_no_error_path_is(runs: str) -> None:
    rule = a_rule(runs)
    rule.call("gc.collect")(flag)
    assert found(rule, TRAIN) == [(3, True)]


def test_a_decorator_decides_for_its_own_check() -> None:
    rule = a_rule("train")
    rule.call("gc.collect", runs="anywhere")(flag)
    assert found(rule, TRAIN) == [(1, False), (2, False), (3, False)]


@pytest.mark.parametrize(
    ("runs", "benchmarks", "expected"),
    [
        ("train", None, []),
        ("train", True, [(3, True)]),
        ("anywhere", None, [(1, False), (2, False), (3, False)]),
        ("anywhere", False, []),
    ],
)
def test_benchmark_code_counts_where_it_is_asked_for(
    runs: str, benchmarks: bool | None, expected: list[tuple[int, bool]]
) -> None:
    rule = a_rule(runs)
    rule.call("gc.collect", benchmarks=benchmarks)(flag)
    text = TRAIN.replace("def train", "def benchmark_train")
    assert found(rule, text) == expected


def test_what_a_benchmark_makes_hot_is_benchmark_code_too() -> None:
    rule = a_rule("train")
    rule.call("gc.collect")(flag)
    text = """import gc

def clear():
    gc.collect()

def {}(loader, model, optimizer):
    for x in loader:
        model(x).sum().backward()
        optimizer.step()
        clear()
"""
    module = [
        Module(cst.parse_module(each), each, "src/train.py", Outside())
        for each in (text.format("train"), text.format("benchmark_train"))
    ]
    _, check = rule.checks[0]
    assert [sum(len(list(check(c, m))) for c in m.nodes(cst.Call)) for m in module] == [1, 0]


def test_what_is_no_hit_is_handed_on_to_the_engine_which_says_so() -> None:
    rule = a_rule("hot")
    rule.call("gc.collect")(lambda node, module: iter(["no hit"]))
    module = Module(cst.parse_module(TRAIN), TRAIN, "src/train.py", Outside())
    yielded = [each for kind, check in rule.checks for node in module.nodes(kind) for each in check(node, module)]
    assert yielded == ["no hit"]
