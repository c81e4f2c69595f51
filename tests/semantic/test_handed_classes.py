"""Tests of who may make objects of a class by another name than its own."""

from __future__ import annotations

import time

import pytest

from tests.checking import check
from torchlint.semantic.code.handed_classes import hands_on, objects_leave
from torchlint.semantic.project.calls import objects_of


@pytest.mark.parametrize(
    "text",
    [
        "@register\nclass Net: pass",
        "KINDS = {'net': Net}",
        "KINDS = [Net, Other]",
        "make('net', Net)",
        "make('net', cls=nets.Net)",
        "def kind(wide): return Wide if wide else Net",
        "class Own(Net): pass",
        "from nets import Net as N\nclass Own(N): pass",
        "class Net:\n    @classmethod\n    def of(cls): return cls(1)",
        "class Net:\n    def again(self): return type(self)(1)",
        "class Net:\n    def again(self): return self.__class__(1)",
        "getattr(nets, 'Net')(1)",
        "for kind in (Net, Other): kind(1)",
        "print 'Net'",
    ],
)
def test_a_class_is_handed_on(text: str) -> None:
    assert hands_on("Net", text)


@pytest.mark.parametrize(
    "text",
    [
        "from nets import Net\nnet = Net(1)\nnet.run(Net(2))",
        "from nets import (\n    Net,\n    Other,\n)\n__all__ = ['Net', 'Other']",
        "import nets\nnet: nets.Net = nets.Net(1)",
        "def run(net: Net, more: dict[str, Net] | None = None) -> Net: pass",
        "assert isinstance(net, (Net, Other))",
        "@dataclass(frozen=True)\nclass Net: pass",
        "class Net(Base):\n    def __init__(self): super(Net, self).__init__()",
        "class Net: pass\nclass Other:\n    @classmethod\n    def of(cls): return cls(Net(1))",
        "from nets import Net as N\nnet = N(1)",
    ],
)
def test_a_class_is_made_by_its_name_alone(text: str) -> None:
    assert not hands_on("Net", text)


@pytest.mark.parametrize(
    ("text", "leave"),
    [
        ("net = Net(1)\nprint(net(2))\nself.net = Net(2)\nself.net(3)\nNet(1)(2)", False),
        ("net: Net = Net(1)\nother(1)", False),
        ("KINDS = {'a': Net}", True),
        ("run(Net(1))", True),
        ("steps = [Net(1), Net(2)]", True),
        ("def build(): return Net(1)", True),
        ("net = Net(1)\nrun(2, net)", True),
        ("self.net = Net(1)\nrun(step=self.net)", True),
        ("def run(x, nets=(Net(1),)): pass", True),
    ],
)
def test_objects_are_called_here_alone_where_none_leaves(text: str, leave: bool) -> None:
    assert objects_leave("Net", text) is leave


LOSS = """\
import torch


class Loss:
    def __call__(self, out, y):
        weight = torch.zeros(3).to(out.device)
        return (out - y).mean() * weight.sum()
{registry}

if __name__ == "__main__":
    loss = Loss()
    print(loss(torch.randn(3), torch.randn(3)))
"""


@pytest.mark.parametrize(("registry", "codes"), [("LOSSES = {'plain': Loss}", ["TL102"]), ("", [])])
def test_a_trial_is_the_only_call_where_nobody_else_has_the_class(
    registry: str, codes: list[str]
) -> None:
    found = check(LOSS.format(registry=registry), codes=frozenset({"TL102"})).findings
    assert [each.code for each in found] == codes


def test_names_of_objects_are_found_in_time_in_a_file_of_data() -> None:
    text = f"DATA = '{'A' * 200_000}'\nKEYS = {{{'1: 2, ' * 50_000}}}\nself.net: Net = nets.Net(3)"
    start = time.process_time()
    assert objects_of("Net", text) == {"Net()", "net"}
    assert time.process_time() - start < 2
