"""Programs that a reviewer wrote: a kind said too much, too little, or never ended."""

from __future__ import annotations

import pytest

from tests.checking import check

HEAD = """\
import argparse
import torch
import torchmetrics
from torch import nn

device = "cuda"
model = nn.Linear(8, 1).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = torch.utils.data.DataLoader([(torch.ones(8), torch.ones(1))])
{before}

def main():
    {start}
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        out = model(x)
        loss = nn.functional.mse_loss(out, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        {iteration}


{last}
main()
"""
SET = """\
parser = argparse.ArgumentParser()
args = parser.parse_args()


def update(obj, values):
    for key, value in values.items():
        setattr(obj, key, value)


update(args, dict(width=3))
"""
PREFIXED = """\
parser = argparse.ArgumentParser(prefix_chars="-+")
parser.add_argument("+width", type=int, default=8)
args = parser.parse_args()
"""
READ = "if loss.item() > 4:\n            print(1)"


def codes(iteration: str, before: str = "", start: str = "", last: str = "") -> list[str]:
    source = HEAD.format(before=before, start=start or "pass", iteration=iteration, last=last)
    report = check(source)
    assert not report.notes
    return [each.code for each in report.findings]


@pytest.mark.parametrize("before", [SET, PREFIXED])
def test_arguments_that_get_more_options_hide_nothing(before: str) -> None:
    assert "TL101" in codes(READ, before, "width = args.width")


def test_a_single_number_as_an_index_puts_it_nowhere() -> None:
    iteration = "best = out.sum(1).argmax()\n        row = table[best].numpy()\n        "
    found = codes(
        iteration + "if best.item() > 3:\n            print(row)", "table = torch.zeros(9, 4)"
    )
    assert found.count("TL101") >= 2


@pytest.mark.parametrize("made", ["in the iteration", "before"])
def test_a_metric_of_one_batch_goes_over_one_batch(made: str) -> None:
    metric = "metric = torchmetrics.MeanSquaredError()"
    iteration = "metric.update(out, y)\n        print(metric.compute())"
    inside = made == "in the iteration"
    found = codes(
        f"{metric}\n        {iteration}" if inside else iteration, start="" if inside else metric
    )
    assert ("TL906" in found) is not inside


def test_a_search_that_runs_a_model_is_no_search_among_what_is_there() -> None:
    iteration = (
        "for k in range(20):\n            if model(x + k).argmax().item() == 2:\n"
        + " " * 16
        + "break"
    )
    assert "TL101" not in codes(iteration)


def test_a_name_that_is_made_of_itself_ends() -> None:
    iteration = (
        "mask = torch.zeros(8, 8, device=device)\n        for i in range(x.shape[0]):\n"
        f"            end = end + 1\n            mask[i, :end] = 1\n        {READ}"
    )
    assert "TL101" in codes(iteration, start="global end", last="from settings import *")
