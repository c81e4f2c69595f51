"""The cheap bound that rules ask before they ask for values: where it says no, no place of the
function is hot."""

from __future__ import annotations

from pathlib import Path

import libcst as cst
import pytest

from torchlint.semantic.module import Module
from torchlint.semantic.project.outside import Outside
from torchlint.semantic.time.heat import heat_of, may_be_hot

FIXTURES = Path(__file__).parents[2] / "fixtures"
FILES = sorted(
    path
    for folder in ("rules", "seeds", "cases", "demo")
    for path in (FIXTURES / folder).rglob("*.py")
)


@pytest.mark.slow
def test_no_means_that_nothing_is_hot() -> None:
    cold = 0
    for path in FILES:
        text = path.read_text(encoding="utf-8")
        try:
            module = Module(
                cst.parse_module(text), text, path.relative_to(FIXTURES).as_posix(), Outside()
            )
        except cst.ParserSyntaxError:
            continue
        for node in module.nodes(cst.Call, cst.Subscript, cst.BinaryOperation, cst.FormattedString):
            if not may_be_hot(module, node):
                cold += 1
                assert not heat_of(module, node).hot, f"{path.name}: {module.shown(node)}"
    assert cold > 100


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("def f(x):\n    return g(x)\n", False),
        ("def f(xs):\n    for x in xs:\n        g(x)\n", False),
        (
            (
                "def f(loader, opt):\n    for x in loader:\n        x.sum().backward()\n        "
                "opt.step()\n"
            ),
            True,
        ),
        (
            (
                "import torch\nclass A(torch.nn.Module):\n    def forward(self, x):\n        "
                "return "
                "g(x)\n"
            ),
            True,
        ),
    ],
    ids=["no loop", "plain loop", "training loop", "forward"],
)
def test_what_may_be_hot(text: str, expected: bool) -> None:
    module = Module(cst.parse_module(text), text, "m.py", Outside())
    assert any(may_be_hot(module, call) for call in module.nodes(cst.Call)) is expected
