"""Made-up words for dianwen-ng/Keyword-Spotting-ConvMixer: two epochs with mixed precision."""

import os
import sys
from pathlib import Path
from types import ModuleType

import torch
import yaml

audio = ModuleType("torchaudio")
audio.load = lambda _: (torch.randn(1, 1600), 16000)  # type: ignore[attr-defined]
audio.compliance = ModuleType("compliance")  # type: ignore[attr-defined]
audio.compliance.kaldi = ModuleType("kaldi")
audio.compliance.kaldi.fbank = lambda *_, num_mel_bins, **__: torch.randn(90, num_mel_bins)
sys.modules["torchaudio"] = audio
os.makedirs("out", exist_ok=True)
os.makedirs("data", exist_ok=True)
Path("data/noise").write_text("noise.wav\n")
rows = [{"audio_filepath": f"{i}.wav", "command": ("yes", "no")[i % 2]} for i in range(8)]
Path("out/manifest.json").write_text("".join(f"{row}\n" for row in rows))
config = yaml.safe_load(Path("configs/ConvMixer.yaml").read_text())
for split in ("train_dataset", "validation_dataset"):
    config["data"][split]["manifest_filepath"] = "out/manifest.json"
config["trainer"].update(
    train_batch_size=2, val_batch_size=2, num_workers=0, num_epochs=2, save_dir="out"
)
Path("out/config.yaml").write_text(yaml.safe_dump(config))
sys.argv = ["main.py", "-c", "out/config.yaml"]
import main  # noqa: E402

main.main()
