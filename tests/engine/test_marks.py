"""What the decorators of a rule keep from its checks, and what they add to their hits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import libcst as cst
import pytest

from tests.checking import rules
from torchlint.catalog.rule_file import RuleInfo
from torchlint.catalog.rules import load_rules
from torchlint.engine.hits import hits
from torchlint.rule import Hit, Module, Rule
from torchlint.semantic.project.outside import Outside
from torchlint.semantic.time.grades import Why

FIXTURES = Path(__file__).parents[2] / "fixtures" / "rules"
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
    """Return which of the calls in order all checks hit, and whether a hit says why its place is
    hot."""
    module = Module(cst.parse_module(text), text, "src/train.py", Outside())
    pairs = [(check, node) for kind, check in rule.checks for node in check.nodes(module, kind)]
    hits = [hit for check, node in pairs for hit in check(node, module)]
    calls = [
        node
        for node in module.nodes(cst.Call)
        if module.source_of(node) in ("tidy()", "other.collect()")
    ]
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
    assert found(rule, TRAIN) == [(1, False), (3, False)]


def test_a_method_is_known_by_its_name() -> None:
    rule = a_rule()
    rule.method("collect")(flag)
    assert found(rule, TRAIN) == [(4, False)]


@pytest.mark.parametrize("runs", ["sample", "hot", "batch", "step", "train"])
def test_only_what_runs_often_enough_is_seen_and_says_why(runs: str) -> None:
    rule = a_rule(runs)
    rule.call("gc.collect")(flag)
    assert found(rule, TRAIN) == [(3, True)]


def test_where_each_run_costs_the_frequent_ones_say_why() -> None:
    rule = a_rule("once")
    rule.call("gc.collect")(flag)
    assert found(rule, TRAIN) == [(1, False), (3, True)]


@pytest.mark.parametrize("about", [None, lambda module, node: True])
@pytest.mark.parametrize("runs", ["anywhere", "once", "train"])
def test_the_way_to_an_exception_never_counts(
    runs: str, about: Callable[[Module, cst.Call], bool] | None
) -> None:
    rule = a_rule(runs)
    rule.on(cst.Call, about=about)(
        lambda node, module: flag(node, module) if module.source_of(node) == "tidy()" else iter(())
    )
    assert 2 not in {place for place, _ in found(rule, TRAIN)}
    assert 3 in {place for place, _ in found(rule, TRAIN)}


def test_a_decorator_decides_for_its_own_check() -> None:
    rule = a_rule("train")
    rule.call("gc.collect", runs="anywhere")(flag)
    assert found(rule, TRAIN) == [(1, False), (3, False)]


def test_of_a_loop_its_body_counts() -> None:
    rule = a_rule("train")
    rule.on(cst.For)(lambda node, module: iter([Hit(node)]))
    module = Module(cst.parse_module(TRAIN), TRAIN, "src/train.py", Outside())
    (loop,) = module.nodes(cst.For)
    assert [bool(hit.why_hot) for _, check in rule.checks for hit in check(loop, module)] == [True]


@pytest.mark.parametrize(("place", "seen"), [(1, []), (2, []), (3, [(3, True)])])
@pytest.mark.parametrize("runs", ["train", "once"])
def test_the_place_that_a_hit_points_at_is_held_to_the_same(
    place: int, seen: list[tuple[int, bool]], runs: str
) -> None:
    """A check that is asked about the step may find what stands before it, or in a handler."""
    rule = a_rule(runs)

    @rule.method("collect")
    def check(node: cst.Call, module: Module) -> Iterator[Hit]:
        calls = [each for each in module.nodes(cst.Call) if module.source_of(each) == "tidy()"]
        yield Hit(calls[place - 1])

    once = [(1, False)] if (runs, place) == ("once", 1) else seen
    assert found(rule, TRAIN) == once


def test_links_that_a_rule_knows_come_before_the_chain_of_the_place() -> None:
    rule = a_rule("train")
    rule.call("gc.collect")(lambda node, module: iter([Hit(node, why_hot=(Why("inside", node),))]))
    module = Module(cst.parse_module(TRAIN), TRAIN, "src/train.py", Outside())
    hits = [
        hit
        for kind, check in rule.checks
        for node in check.nodes(module, kind)
        for hit in check(node, module)
    ]
    assert [[why.text for why in hit.why_hot] for hit in hits] == [
        ["inside", "every training step of the loop"]
    ]


@pytest.mark.parametrize(
    ("runs", "benchmarks", "expected"),
    [
        ("train", False, []),
        ("train", True, [(3, True)]),
        ("anywhere", False, []),
        ("anywhere", True, [(1, False), (3, False)]),
    ],
)
def test_benchmark_code_counts_where_it_is_asked_for(
    runs: str, benchmarks: bool, expected: list[tuple[int, bool]]
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
    found = [sum(len(list(check(c, m))) for c in check.nodes(m, cst.Call)) for m in module]
    assert found == [1, 0]


def test_what_is_no_hit_is_handed_on_to_the_engine_which_says_so() -> None:
    rule = a_rule("hot")
    rule.call("gc.collect")(lambda node, module: iter(["no hit"]))
    module = Module(cst.parse_module(TRAIN), TRAIN, "src/train.py", Outside())
    yielded = [
        each
        for kind, check in rule.checks
        for node in check.nodes(module, kind)
        for each in check(node, module)
    ]
    assert yielded == ["no hit"]


def test_only_calls_of_its_names_are_given_to_a_check() -> None:
    rule, asked = a_rule(), []
    text = "import gc\nfrom gc import collect as tidy\n\ngc.collect()\ntidy()\nx.collect()\nf()\n"
    module = Module(cst.parse_module(text), text, "src/train.py", Outside())

    def note(node: cst.Call, module: Module) -> Iterator[Hit]:
        asked.append(module.source_of(node))
        yield Hit(node)

    rule.call("gc.collect")(note)
    rule.method("collect")(note)
    rule.on(cst.Call)(note)
    found, crashes = hits(module, [rule])
    assert (len(found), crashes) == (8, [])
    assert asked[:2] == ["gc.collect()", "tidy()"]
    assert asked[2:4] == ["gc.collect()", "x.collect()"]
    assert [len(check.calls) for _, check in rule.checks] == [1, 1, 0]


def test_a_test_of_names_or_of_the_file_leaves_out_what_is_not_asked_about() -> None:
    asked: list[str] = []
    text = "import gc\n\ngc.collect()\nx.collect()\nf()\n"
    module = Module(cst.parse_module(text), text, "src/train.py", Outside())

    def note(node: cst.Call, module: Module) -> Iterator[Hit]:
        asked.append(module.source_of(node))
        yield from ()

    rule = a_rule()
    rule.on(cst.Call, calls=lambda name: name.startswith("gc."))(note)
    rule.on(cst.Call, calls=(".collect",), file=lambda module: "import gc" in module.text)(note)
    rule.on(cst.Call, file=lambda module: "import torch" in module.text)(note)
    hits(module, [rule])
    assert asked == ["gc.collect()", "gc.collect()", "x.collect()"]


def test_a_check_of_certain_calls_is_not_asked_about_those_that_run_seldom() -> None:
    asked: list[str] = []
    text = TRAIN + "\ndef once():\n    other.collect()\n"
    module = Module(cst.parse_module(text), text, "src/train.py", Outside())

    def note(node: cst.Call, module: Module) -> Iterator[Hit]:
        function = module.function(node)
        asked.append(function.name.value if function is not None else "")
        yield Hit(node)

    rule = a_rule("hot")
    rule.on(cst.Call, calls=(".collect",))(note)
    hits(module, [rule])
    assert asked == ["train"]


@pytest.mark.parametrize("info", rules(), ids=lambda info: info.code)
def test_what_a_rule_says_it_cannot_find_it_does_not_find(info: RuleInfo) -> None:
    (rule,) = load_rules([info.code])[0]
    family, name = rule.module_name.split(".")[-2:]
    text = (FIXTURES / family / f"{name}.py").read_text(encoding="utf-8")
    module = Module(cst.parse_module(text), text, "src/train.py", Outside())
    for kind, check in rule.checks:
        asked = set(check.nodes(module, kind))
        left_out = [node for node in module.nodes(kind) if node not in asked]
        assert [node for node in left_out for _ in check(node, module)] == []
