"""Logits that a huge number was written into have a finite loss only behind a sigmoid: the
logarithm of a probability is cut off at -100."""

from __future__ import annotations

import pytest

from tests.findings.test_fresh_misreadings import messages

LOSS = """\
HIDDEN = -1e9


def hide(z, mask, by=0.0):
    return z + mask * by


def loss_of(x, y, mask):
    z = model(x.to(device))
{lines}
    return F.binary_cross_entropy(torch.sigmoid({logits}), y)
"""


@pytest.mark.parametrize(
    ("line", "logits", "said"),
    [
        ("z = z.masked_fill(mask, -1e9)", "z", False),
        ("z.masked_fill_(mask, float('-inf'))", "z", False),
        ("z[mask] = HIDDEN", "z[:, 1:]", False),
        ("z = torch.where(mask, z, torch.finfo(z.dtype).min)", "z", False),
        ("z = z - 1e9 * mask", "z", False),
        ("z += (1 - mask) * -10000.0", "z", False),
        ("all = z.new_full((8, 9), fill_value=-1e24); all[:, 1:] = z", "all[mask]", False),
        ("z = hide(z, mask, -1e9)", "z", False),
        ("z = z.masked_fill(mask, 0.0)", "z", True),
        ("z[mask] = -10.0", "z", True),
        ("z = z.clamp(-50, 50)", "z", True),
        ("z = z.view(-1, 4096)", "z", True),
        ("other = z.masked_fill(mask, -1e9)", "z", True),
        ("z = hide(z, mask)", "z", True),
        ("z = 100 * z", "z", True),
    ],
)
def test_a_loss_of_filled_logits(line: str, logits: str, said: bool) -> None:
    program = LOSS.format(lines=f"    {line}", logits=logits)
    assert bool(messages(program, "TL404")) is said
