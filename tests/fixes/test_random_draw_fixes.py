"""Random numbers of NumPy are drawn on the device instead: of the same shape and dtype, from the
same distribution."""

from __future__ import annotations

import pytest

from tests.checking import fixed

torch = pytest.importorskip("torch")

from tests.executed import execute  # noqa: E402 - it imports torch

SOURCE = """\
import numpy as np
import torch
from torch import nn

device = torch.device("cuda")
kept = []


class Noisy(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        q = self.layer(x)
        for _ in range(2):
            y = {0}
            if y is None:
                break
        else:
            kept.append(y)
        return q


net = Noisy().to(device)
for step in range(40):
    net(torch.ones(50, 4, device=device)).sum().backward()
"""
DRAWS = {
    "torch.from_numpy(np.random.randn(x.size(0), 4)).float().to(x.device)": "torch.randn(",
    "torch.from_numpy(np.random.rand(x.size(0), 4)).to(x.device)": "dtype=torch.float64",
    "torch.FloatTensor(np.random.random((50, 4))).to(x.device)": "torch.rand((50, 4)",
    "torch.from_numpy(np.random.permutation(q.size(0))).type_as(q).long()": "torch.randperm(",
    "torch.from_numpy(np.random.permutation(q.size(0))).to(q.device)": "torch.randperm(",
    "torch.from_numpy(np.random.randint(0, 9, size=(50, 4))).to(x.device)": "torch.randint(0, 9, (",
    "torch.from_numpy(np.random.randn(50, 4)).type_as(q)": "dtype=q.dtype",
}
NEAR = [
    "torch.from_numpy(np.random.randn(50, 4) * 2).to(x.device)",
    "torch.from_numpy(np.random.permutation(np.arange(4))).to(x.device)",
    "torch.from_numpy(np.random.randn(50, 4)).view(4, 50).to(x.device)",
    "torch.from_numpy(np.random.choice(4, 3)).to(x.device)",
    "torch.from_numpy(np.random.randn(*x.shape)).to(x.device)",
]


def repaired(draw: str, safety: str = "unsafe") -> str:
    before = SOURCE.replace("{0}", draw)
    return fixed(before, safety, codes=frozenset({"TL114"})).after or before


@pytest.mark.parametrize("draw", DRAWS)
def test_shape_dtype_and_distribution_stay(draw: str) -> None:
    after = repaired(draw)
    assert DRAWS[draw] in after
    (bad, _), (good, _) = execute(SOURCE.replace("{0}", draw)), execute(after)
    old, new = torch.stack(bad["kept"]), torch.stack(good["kept"])
    assert (old.dtype, old.shape) == (new.dtype, new.shape)
    ours, theirs = new.double(), old.double()
    assert abs(ours.mean() - theirs.mean()) < 0.2
    assert abs(ours.std() - theirs.std()) < 0.2
    assert ours.min() >= theirs.min() - 3


def test_a_comment_that_names_numpy_stays_true() -> None:
    draw = next(iter(DRAWS))
    commented = SOURCE.replace("{0}", f"{draw}  # NumPy's seed is ours")
    assert fixed(commented, "unsafe", codes=frozenset({"TL114"})).after in ("", commented)


def test_a_comment_at_one_draw_of_a_function_holds_for_the_others() -> None:
    draw = next(iter(DRAWS))
    other = "kept.append(np.random.rand(2))"
    commented = f"{other}  # numpy instead, torch.rand has a bug\n            y = {draw}"
    source = SOURCE.replace("y = {0}", commented)
    assert fixed(source, "unsafe", codes=frozenset({"TL114"})).after in ("", source)
    plain = source.replace("  # numpy instead, torch.rand has a bug", "")
    assert "torch.randn(" in fixed(plain, "unsafe", codes=frozenset({"TL114"})).after


def test_an_import_that_nothing_uses_any_more_goes_too() -> None:
    draw = next(iter(DRAWS))
    after = repaired(draw)
    assert "numpy" not in after
    assert after.count("import torch\n") == 1
    twice = SOURCE.replace("{0}", f"{draw} + np.pi")
    assert "import numpy" in fixed(twice, "unsafe", codes=frozenset({"TL114"})).after


@pytest.mark.parametrize("draw", NEAR)
def test_no_fix_where_more_is_done(draw: str) -> None:
    assert repaired(draw) == SOURCE.replace("{0}", draw)


def test_a_draw_is_never_safe() -> None:
    draw = next(iter(DRAWS))
    assert repaired(draw, "safe") == SOURCE.replace("{0}", draw)
