"""What has ``.item()`` is told from what is a tensor for certain."""

from __future__ import annotations

import libcst as cst
import pytest

from torchlint.semantic.module import Module
from torchlint.semantic.project.outside import Outside
from torchlint.semantic.values.detachable import detachable

LOOP = """
import torch
from torch import nn
from metrics import choose, score


class Trainer:
    def __init__(self, config):
        self.model = config.model.cuda()
        self.criterion = choose(config)
        self.eval_criterion = choose(config.metric)
        self.known = nn.CrossEntropyLoss()

    def own(self, out, y):
        return self.eval_criterion(out, y), (out.argmax(1) == y).sum()

    def train(self):
        for x, y in self.loader:
            loss = self.criterion(self.model(x.cuda()), y.cuda())
            loss.backward()

    def evaluate(self):
        for x, y in self.loader:
            x, y = x.cuda(), y.cuda()
            out = self.model(x)
            seen = {}
            found.item()
"""
CHOSEN = {
    "a metric": "self.eval_criterion(out, y)",
    "a metric by a name": "found = self.eval_criterion(out, y)",
    "a metric on one way": "found = out.mean()\nif y:\n    found = self.eval_criterion(out, y)",
    "the negative of a metric": "-self.eval_criterion(out, y)",
    "half of a metric": "self.eval_criterion(out, y) / 2",
    "the data of a metric": "self.eval_criterion(out, y).data",
    "the mean of a metric": "self.eval_criterion(out, y).mean()",
    "one of several": "self.eval_criterion(out, y) if y else out.mean()",
    "a function of another library": "score(out, y)[0]",
    "what a function of the file gives": "self.own(out, y)[0]",
}
TENSORS = {
    "a loss that is back-propagated elsewhere": "self.criterion(out, y)",
    "a loss of torch": "self.known(out, y)",
    "a function of torch": "nn.functional.mse_loss(out, y)",
    "a method of what a network gives": "out.mean()",
    "a sum with a tensor": "self.eval_criterion(out, y) + out.mean()",
    "what is called as tensors alone are": "self.eval_criterion(out, y).detach()",
    "a name that is used as a tensor": "found = self.eval_criterion(out, y)\nfound.backward()",
    "a batch": "y.max()",
}


def asked(way: str) -> bool:
    if "found =" not in way:
        way = f"found = {way}"
    lines = "\n".join(" " * 12 + line for line in way.splitlines())
    text = LOOP.replace("            seen = {}", lines)
    module = Module(cst.parse_module(text), text, "train.py", Outside())
    read = next(
        node
        for node in module.nodes(cst.Attribute)
        if node.attr.value == "item" and isinstance(node.value, cst.Name)
    )
    return detachable(module, read.value)


@pytest.mark.parametrize("way", CHOSEN)
def test_what_is_chosen_elsewhere_may_be_a_number_of_numpy(way: str) -> None:
    assert not asked(CHOSEN[way])


@pytest.mark.parametrize("way", TENSORS)
def test_a_tensor_is_known_by_what_made_it_or_by_its_use(way: str) -> None:
    assert asked(TENSORS[way])
