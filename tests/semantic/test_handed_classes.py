"""Tests of who may make objects of a class by another name than its own."""

from __future__ import annotations

import time

import pytest

from torchlint.semantic.code.handed_classes import hands_on
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


def test_names_of_objects_are_found_in_time_in_a_file_of_data() -> None:
    text = f"DATA = '{'A' * 200_000}'\nKEYS = {{{'1: 2, ' * 50_000}}}\nself.net: Net = nets.Net(3)"
    start = time.process_time()
    assert objects_of("Net", text) == {"Net()", "net"}
    assert time.process_time() - start < 2
