"""Code that measures or tests: it waits for the device on purpose."""

from __future__ import annotations

import re

import libcst as cst

from torchlint.base.regex import regex
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.torch import names as torch_names

_BENCH_WORDS = regex(
    r"(^|[_/\-.])(bench(mark)?s?|profil(e|er|ing)|perf|timing|speed_?test)([_/\-.0-9]|$)"
)
_TEST_PATH = regex(
    r"(^|/)(tests?/|test(s|ing)?[_/](helpers?|util(ity|itie)?s?|fixtures?)/|conftest\.py$)"
)
_TEST_FILE = regex(r"(^|/)(test_[^/]*|[^/]*_test)\.py$")
_OF_TESTS = regex(
    r"^[^\S\n]*(class Test|class \w+\(.*TestCase)|\bimport (pytest|unittest)\b"
    r"|^[^\S\n]*from (pytest|unittest)",
    re.MULTILINE,
)
_TEST = regex(r"^[^\S\n]*(?:async )?def (test_\w*)", re.MULTILINE)
_SMOKE_FILE = regex(r"(^|[_\-])smoke([_\-.]|$)")
_SMOKE = regex(r"\bsmoke[ _-]?(tests?|runs?|checks?)\b", re.IGNORECASE)
"""Two steps on little data, to see that nothing breaks; some programs look for real smoke."""
_TIMING = ("torch.cuda.Event", "torch.utils.benchmark.Timer")


@question(
    yes=(
        "this is benchmark or test code (by its path, a function's name or timing events), which "
        "does so on purpose"
    ),
    no="this is neither benchmark nor test code",
    ground=True,
)
def is_benchmark(module: Module, node: cst.CSTNode) -> bool:
    """Say whether `node` is benchmark or test code: by path, by function name, or by CUDA timing
    events."""
    if _in_bench_file(module):
        return True
    around = module.tree.def_of(node)
    while around is not None and not _is_bench(module, around):
        around = module.tree.def_of(around)
    return around is not None


@question(ground=True)
def _in_bench_file(module: Module) -> bool:
    """Say whether the path names a benchmark, a profiling script or a test."""
    path = module.filename.replace("\\", "/")
    tail, name = "/".join(path.split("/")[-3:]), path.rpartition("/")[2]
    if _TEST_PATH.search(tail) or _BENCH_WORDS.search(name):
        return True
    if _SMOKE_FILE.search(name) and _SMOKE.search(module.text):
        return True
    # ``test_segmentation.py`` of a training repository evaluates a model: it holds no tests.
    return bool(_TEST_FILE.search(tail)) and holds_tests(module.text)


def holds_tests(text: str) -> bool:
    """Say whether the text of a file holds tests: what it calls with arguments is none."""
    return _OF_TESTS.search(text) is not None or any(
        not _is_called(name, text) for name in _TEST.findall(text)
    )


def _is_called(name: str, text: str) -> bool:
    """Say whether a text calls a function with an argument."""
    return re.search(rf"(?<!def ){name}\(\s*[^\s)]", text) is not None


def _is_test(module: Module, function: cst.FunctionDef) -> bool:
    """Say whether a function is a test: ``test_epoch(model, loader)`` that a training script calls,
    or a method of its trainer, evaluates a model."""
    name = function.name.value
    if not name.startswith("test_") or name in torch_names.STEP_METHODS:
        return False
    takes = any(each.default is None for each in function.params.params)
    if not takes or _OF_TESTS.search(module.text) is not None:
        return True
    return module.class_of(function) is None and not _is_called(name, module.text)


@question(ground=True)
def _is_bench(module: Module, function: cst.FunctionDef) -> bool:
    """Say whether a function measures time or tests, by its name or by CUDA timing events."""
    name = function.name.value
    if _BENCH_WORDS.search(name) or _is_test(module, function):
        return True
    if name == "test" and not function.params.params:  # pytest collects it as well
        return module.contains(function, cst.Assert)
    calls = list(module.within(function, cst.Call))
    methods = {call.func.attr.value for call in calls if isinstance(call.func, cst.Attribute)}
    if "backward" in methods and "state_dict" in methods:
        return False  # A training that keeps its weights, and shows how long its steps take.
    return any(module.name(call.func) in _TIMING for call in calls)
