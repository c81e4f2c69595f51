"""Who may change one object, under all its names."""

from __future__ import annotations

import libcst as cst
import pytest

from torchlint.semantic.module import Module
from torchlint.semantic.project.outside import Outside
from torchlint.semantic.uses.object_uses import Way, binding_uses

CASES = [
    ("a method that computes", "x.sum()", set()),
    ("a fact", "x.shape", set()),
    ("a read on the host", "print(x.item() > 0)", set()),
    ("text", "print(f'{x}')", set()),
    ("in place", "x.add_(1)", {Way.WRITTEN}),
    ("in place through a view", "v = x.view(-1)[1:]\nv.zero_()", {Way.WRITTEN}),
    ("in place through an array", "x.numpy()[:] = 0", {Way.WRITTEN}),
    ("in place as an output", "torch.add(y, 1, out=x)", {Way.WRITTEN}),
    ("in place by an augmented assignment", "x += 1", {Way.WRITTEN}),
    ("other storage", "x.data = y", {Way.WRITTEN}),
    ("through a container", "pair = [x, y]\nfor t in pair:\n    t.zero_()", {Way.WRITTEN}),
    ("through a dictionary", "d = {'k': x}\nd['k'].mul_(2)", {Way.WRITTEN}),
    ("through a function of the file", "change(x)", {Way.WRITTEN}),
    ("to a function that is not known", "unknown(x)", {Way.ESCAPES}),
    ("into an attribute", "self.x = x", {Way.ESCAPES}),
    ("into a second name and an attribute", "self.x = z = x\nz.sum()", {Way.ESCAPES}),
    ("into a list of others", "kept.append(x)", {Way.ESCAPES}),
    ("to a function that reads it later", "later = lambda: x.sum()", {Way.ESCAPES}),
    ("out of the function", "return x", {Way.ESCAPES}),
    ("out of a generator", "yield x", {Way.ESCAPES}),
    ("into a file", "torch.save(x, 'x.pt')", {Way.ESCAPES}),
    ("an unknown attribute", "x.grad_fn_of_mine", {Way.ESCAPES}),
    ("back-propagated", "x.backward()", set()),
    ("an identity", "print(x is y)", set()),
    ("one of a pair of elements", "for i, row in enumerate(x):\n    print(i)", set()),
]


@pytest.mark.parametrize(("what", "code", "ways"), CASES, ids=[case[0] for case in CASES])
def test_use_is_told(what: str, code: str, ways: set[Way]) -> None:
    lines = "\n".join(f"    {line}" for line in code.splitlines())
    source = (
        "import torch\n\n\ndef change(t):\n    t.clamp_(0, 1)\n\n\n"
        f"def run(self, y, kept, unknown):\n    x = torch.rand(4)\n{lines}\n"
    )
    module = Module(cst.parse_module(source), source, "main.py", Outside())
    made = next(n for n in module.nodes(cst.Assign) if isinstance(n, cst.Assign))
    assert {use.way for use in binding_uses(module, made, "x")} == ways
