"""What is moved to a device and called, or asked for parameters and called, is a network, whatever
made it."""

from __future__ import annotations

import pytest

from tests.semantic.test_values import value_of

MADE = """
def f(args, x):
    x = x.cuda()
    {}
    probe({})
"""
KEPT = """
class Solver:
    def __init__(self, args):
        self.q = make(args).to("cuda")
        self.mask = make(args).to("cuda")
        self.rnn = make(args)
        self.head = make(args)
        self.opt = torch.optim.Adam(self.rnn.parameters())

    def run(self, x):
        probe({})
"""


@pytest.mark.parametrize(
    "made",
    [
        "b = archs.__dict__[args.arch](10).to('cuda')",
        "b = getattr(archs, args.arch)().cuda()",
        "b = make(args)\n    b = b.to('cuda')",
        "b = make(args)\n    b.eval()",
        "b = make(args)\n    opt = torch.optim.SGD(b.parameters(), lr=0.1)",
        "b = give().first\n    b.requires_grad_(False)",
    ],
)
def test_what_is_used_as_a_network_gives_tensors_of_the_device(made: str) -> None:
    found = value_of(MADE.format(made, "b(x)"))
    assert (found.kind, found.device in ("cuda", "accel")) == ("tensor", True)


@pytest.mark.parametrize(
    ("made", "expression"),
    [
        ("b = make(args)", "b(x)"),
        ("b = make(args).to('cuda')", "b"),
        ("b = make(args).to('cuda')", "b()"),
        ("b = make(args)\n    b.load_state_dict(args.state)", "b(x)"),
        ("b = make(args)\n    other.eval()", "b(x)"),
        ("b = make(args)\n    b.eval()", "b"),
    ],
)
def test_what_is_not_used_so_is_not_known(made: str, expression: str) -> None:
    assert value_of(MADE.format(made, expression)).kind == "?"


@pytest.mark.parametrize(
    ("expression", "kind"),
    [
        ("self.q(x)", "tensor"),
        ("self.rnn(x)", "tensor"),
        ("self.head(x)", "?"),
        ("self.mask", "?"),
    ],
)
def test_what_a_class_keeps(expression: str, kind: str) -> None:
    assert value_of(KEPT.format(expression)).kind == kind
