"""Options that are off by default, and who may turn them on."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchlint.run.projects import forget
from torchlint.run.worker import analyse_job
from torchlint.testing.source import job

TRAINER = """\
import torch


class Trainer:
    def __init__(self, model, loud=False):
        self.model = model
        self.loud = loud

    def fit(self, loader, optimizer):
        for x in loader:
            loss = self.model(x.cuda(non_blocking=True)).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if self.loud:
                print(loss.item())
"""
RUN = "from trainer import Trainer\nprint 'starts'\n"


@pytest.mark.parametrize(("more", "severity"), [("Trainer(net, True)\n", "warning"), ("", "info")])
def test_what_does_not_parse_may_turn_an_option_on(
    tmp_path: Path, more: str, severity: str
) -> None:
    (tmp_path / "run.py").write_text(RUN + more, encoding="utf-8")
    (tmp_path / "trainer.py").write_text(TRAINER, encoding="utf-8")
    forget()
    found = analyse_job(job(TRAINER, name="trainer.py", root=str(tmp_path))).findings
    assert [each.severity.value for each in found if each.code == "TL105"] == [severity]
