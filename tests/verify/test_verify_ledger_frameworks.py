"""Trainers of Lightning and Transformers under the ledger. Skipped where they are not installed."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from tests.verify.ledgers import virtual_cuda  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


def lightning_losses(folder: Path, accelerator: str) -> list[float]:
    lightning = pytest.importorskip("lightning")

    class Model(lightning.LightningModule):  # type: ignore[name-defined,misc]
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(4, 1)
            self.losses: list[Any] = []

        def training_step(self, batch: Any, index: int) -> Any:
            assert batch[0].device == self.device
            loss = (self.layer(batch[0]) - batch[1]).pow(2).mean()
            self.log("loss", loss)
            self.losses.append(loss.detach())
            return loss

        def configure_optimizers(self) -> Any:
            return torch.optim.Adam(self.parameters(), 1e-2)

    torch.manual_seed(0)
    data = torch.utils.data.TensorDataset(torch.randn(32, 4), torch.randn(32, 1))
    model = Model()
    trainer = lightning.Trainer(
        max_epochs=2,
        accelerator=accelerator,
        devices=1,
        default_root_dir=str(folder),
        enable_progress_bar=False,
        log_every_n_steps=1,
    )
    trainer.fit(model, torch.utils.data.DataLoader(data, 8))
    return [float(loss) for loss in model.losses]


@pytest.mark.parametrize("accelerator", ["auto", "gpu"])
def test_lightning(tmp_path: Path, accelerator: str) -> None:
    plain = lightning_losses(tmp_path, "cpu")
    with virtual_cuda(str(Path(__file__).parent)) as ledger:
        assert lightning_losses(tmp_path, accelerator) == plain
    summary = ledger.summary(0)
    assert summary["unavailable"] == ""
    assert summary["h2d_bytes"] >= 2 * 4 * 8 * 5 * 4


def transformers_losses(folder: Path) -> list[float]:
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=50,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
    )
    model = transformers.BertForSequenceClassification(config)
    data = [
        {
            "input_ids": torch.randint(0, 50, (8,)),
            "attention_mask": torch.ones(8, dtype=torch.long),
            "labels": i % 2,
        }
        for i in range(16)
    ]
    arguments = transformers.TrainingArguments(
        str(folder),
        per_device_train_batch_size=4,
        max_steps=6,
        save_steps=3,
        logging_steps=1,
        report_to=[],
    )
    trainer = transformers.Trainer(model, arguments, train_dataset=data)
    trainer.train()
    assert (folder / "checkpoint-6" / "rng_state.pth").exists()
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


def test_transformers(tmp_path: Path) -> None:
    plain = transformers_losses(tmp_path / "plain")
    with virtual_cuda(str(Path(__file__).parent)) as ledger, warnings.catch_warnings():
        assert transformers_losses(tmp_path / "virtual") == plain
    summary = ledger.summary(0)
    assert summary["unavailable"] == ""
    assert summary["syncs"] > 0
