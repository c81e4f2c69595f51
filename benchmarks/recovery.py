"""Measures how often `torchlint profile` finds the right line in traces that name functions alone.

    python benchmarks/recovery.py [--keep NAME] [--show]

Programs are recorded on a CPU with Python frames and a mark around each of their statements. The
marks are taken out of the trace, lines are found without them, and compared with what they say:
their time, and their events. Own time of functions, backward and heads of loops that have no mark
are left out. Programs of libraries that are not installed are skipped.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from measuring import environment, keep

from torchlint.profile.places import Places
from torchlint.profile.sites import FRAME, Source, Sources
from torchlint.trace.columns import NONE, Mask, Trace
from torchlint.trace.nest import exclusive, nearest, parents
from torchlint.trace.stream import read

USER = """
import argparse
import math
import random
from collections import defaultdict

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


class Synthetic(Dataset):
    def __init__(self, count, width):
        self.count = count
        generator = torch.Generator().manual_seed(0)
        self.x = torch.randn(count, width, generator=generator)
        self.y = (self.x.sum(1) > 0).long()

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        x = self.x[index]
        if random.random() < 0.5:
            x = x + 0.1 * torch.randn_like(x)
        x = (x - x.mean()) / (x.std() + 1e-6)
        return x, self.y[index]


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, dim * 3)
        self.out = nn.Linear(dim, dim)
        self.drop = nn.Dropout(0.1)

    def forward(self, x, mask=None):
        b, n, d = x.shape
        qkv = self.qkv(x).reshape(b, n, 3, self.heads, d // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) / math.sqrt(d // self.heads)
        if mask is not None:
            scores = scores.masked_fill(mask == 0, float("-inf"))
        weights = self.drop(scores.softmax(dim=-1))
        y = (weights @ v).transpose(1, 2).reshape(b, n, d)
        return self.out(y)


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim)
        self.attn = Attention(dim, heads)
        self.norm2 = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, dim * 4), nn.GELU(), nn.Linear(dim * 4, dim))

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        x = x + self.mlp(self.norm2(x))
        return x


class Net(nn.Module):
    def __init__(self, width, dim=32, depth=3, heads=4, classes=2):
        super().__init__()
        self.embed = nn.Linear(1, dim)
        self.position = nn.Parameter(torch.zeros(1, width, dim))
        self.blocks = nn.ModuleList([Block(dim, heads) for _ in range(depth)])
        self.head = nn.Linear(dim, classes)

    def forward(self, x):
        x = self.embed(x.unsqueeze(-1)) + self.position
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean(dim=1))


class Meter:
    def __init__(self):
        self.sum = 0.0
        self.count = 0

    def update(self, value, n=1):
        self.sum += value * n
        self.count += n

    @property
    def avg(self):
        return self.sum / max(1, self.count)


def accuracy(logits, target):
    pred = logits.argmax(dim=1)
    correct = (pred == target).float()
    return correct.mean().item()


def mixup(x, y, alpha=0.2):
    lam = np.random.beta(alpha, alpha)
    index = torch.randperm(x.size(0))
    return lam * x + (1 - lam) * x[index], y, y[index], lam


def train_epoch(model, loader, optimizer, scheduler, device, log_every=5):
    model.train()
    losses, accs = Meter(), Meter()
    for step, (x, y) in enumerate(loader):
        x, y = x.to(device), y.to(device)
        if step % 2:
            x, ya, yb, lam = mixup(x, y)
            logits = model(x)
            loss = lam * F.cross_entropy(logits, ya) + (1 - lam) * F.cross_entropy(logits, yb)
        else:
            logits = model(x)
            loss = F.cross_entropy(logits, y)
        optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        losses.update(loss.item(), x.size(0))
        accs.update(accuracy(logits, y), x.size(0))
        if step % log_every == 0:
            print(f"step {step} loss {losses.avg:.3f} acc {accs.avg:.3f} norm {norm:.2f}")
    return losses.avg


@torch.no_grad()
def evaluate(model, loader, device):
    model.eval()
    total, hits = 0, 0
    table = defaultdict(list)
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        pred = model(x).argmax(1)
        hits += (pred == y).sum().item()
        total += len(y)
        for label, guess in zip(y.tolist(), pred.tolist()):
            table[label].append(guess)
        confusion = torch.zeros(2, 2)
        for i in range(len(y)):
            confusion[y[i], pred[i]] += 1
        positive = [float(p) for p in pred if p > 0]
        best = sorted(positive, key=lambda v: -v)
    return hits / total


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    args = parser.parse_args([])
    torch.manual_seed(0)
    device = torch.device("cpu")
    data, test = Synthetic(256, 16), Synthetic(64, 16)
    loader = DataLoader(data, batch_size=16, shuffle=True)
    test_loader = DataLoader(test, batch_size=16)
    model = Net(16).to(device)
    decay = [p for n, p in model.named_parameters() if p.ndim > 1]
    rest = [p for n, p in model.named_parameters() if p.ndim <= 1]
    optimizer = torch.optim.AdamW(
        [{"params": decay}, {"params": rest, "weight_decay": 0.0}], lr=1e-3
    )
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=100)
    for epoch in range(args.epochs):
        loss = train_epoch(model, loader, optimizer, scheduler, device)
        acc = evaluate(model, test_loader, device)
        ema = {k: v.clone() * 0.9 for k, v in model.state_dict().items()}
        total = sum(p.norm().item() for p in model.parameters())
        print(epoch, loss, acc, total, len(ema))
"""
LIGHTNING = """
import lightning.pytorch as pl
import torch, torch.nn as nn, torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

class Lit(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 2))

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = F.cross_entropy(self.net(x), y)
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch, batch_idx):
        x, y = batch
        logits = self.net(x)
        self.log_dict({"acc": (logits.argmax(1) == y).float().mean()})

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)

def main():
    data = TensorDataset(torch.randn(128, 16), torch.randint(0, 2, (128,)))
    trainer = pl.Trainer(max_epochs=1, limit_train_batches=4, limit_val_batches=1,
        accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False)
    trainer.fit(Lit(), DataLoader(data, 16), DataLoader(data, 16))
"""
TRANSFORMERS = """
import tempfile
import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 32

    def __getitem__(self, i):
        words = torch.randint(0, 100, (16,))
        return {"input_ids": words, "attention_mask": torch.ones_like(words), "labels": i % 2}

def main():
    config = BertConfig(vocab_size=100, hidden_size=32, num_hidden_layers=2,
        num_attention_heads=2, intermediate_size=64)
    model = BertForSequenceClassification(config)
    args = TrainingArguments(tempfile.mkdtemp(), max_steps=4, per_device_train_batch_size=4,
        report_to=[], use_cpu=True, disable_tqdm=True, save_strategy="no", logging_steps=2)
    Trainer(model=model, args=args, train_dataset=Data()).train()
"""
PROGRAMS = {"user": USER, "lightning": LIGHTNING, "transformers": TRANSFORMERS}
RECORD = """
import importlib, json, sys
from torchlint.program.inside import statement_marks
out, root, module = sys.argv[1:]
marks = statement_marks.Marks(root)
marks.start()
main = importlib.import_module(module).main
from torch.profiler import ProfilerActivity, profile
with profile(activities=[ProfilerActivity.CPU], with_stack=True) as found:
    statement_marks.show()
    main()
    statement_marks.forget()
found.export_chrome_trace(out + "/t.json")
rows = [[f"{root}/{file}", first, last] for file, first, last, _ in marks.rows]
json.dump(rows, open(out + "/marks.json", "w"))
"""
_MARK = re.compile(r"tl#(\d+)")
_RECORDER = re.compile(
    r".*(?:_RecordFunctionFast|torch\._C\._profiler).*|.*statement_marks\.py\(\d+\): .*"
)


def recorded(folder: Path, name: str) -> tuple[Trace, list[tuple[str, int, int]], Path]:
    """Record a program; return the trace, (file, first, last line) of its marks, and the folder
    whose files are marked."""
    (folder / "program.py").write_text(PROGRAMS[name], encoding="utf-8")
    found = None if name == "user" else importlib.util.find_spec(name)
    root = Path(found.origin).parent if found is not None and found.origin else folder
    code = f"import sys; sys.path[:0] = {[str(folder)]!r}\n{RECORD}"
    subprocess.run(
        [sys.executable, "-c", code, str(folder), str(root), "program"],
        check=True,
        capture_output=True,
    )
    rows = json.loads((folder / "marks.json").read_text(encoding="utf-8"))
    return read(str(folder / "t.json")), [(file, *lines) for file, *lines in rows], root


def named(trace: Trace, pattern: re.Pattern[str]) -> Mask:
    """Return which events have names that a pattern matches."""
    return np.isin(trace.columns.name, trace.named(pattern))


class Truth:
    """A trace without its marks, and what they said.

    `mark` is the row of the mark that each of its events stands in, `NONE` where a function of the
    program, whose statement has no mark, lies between.
    """

    def __init__(self, whole: Trace, sources: Sources) -> None:
        marks, recorder = named(whole, _MARK), named(whole, _RECORDER)
        around = parents(whole, ~whole.device())
        by_recorder = np.append(recorder, False)[around]
        iterates = named(whole, re.compile(r"<built-in function (?:next|iter)>")) & by_recorder
        names = whole.names
        program = [at for at, name in enumerate(names) if _of_program(name, sources)]
        frames = np.isin(whole.columns.name, program)
        bound = nearest(around, marks | frames)
        mark = np.where(np.append(marks, False)[bound], bound, NONE)
        kept = np.flatnonzero(~(marks | recorder | iterates))
        self.trace = whole.with_columns(whole.columns.where(kept))
        self.mark = mark[kept]
        self.frames = frames[kept]
        self.name = np.append(whole.columns.name, NONE)[self.mark]


def _of_program(name: str, sources: Sources) -> bool:
    found = FRAME.fullmatch(name)
    source = sources.of(found[1]) if found else None
    if found is None or source is None or re.fullmatch(r"<\w+comp>", found[3]):
        return False
    return source.holds(found[3], int(found[2]))


def measured(folder: Path, name: str, *, show: bool) -> dict[str, Any]:
    """Return which share of a program's time and events got the right line."""
    whole, rows, root = recorded(folder, name)
    paths = sorted({*(Path(file) for file, *_ in rows), folder / "program.py"})
    texts = [path for path in paths if path.exists()]
    sources = Sources(
        Source(str(path), str(path), path.read_text(encoding="utf-8")) for path in texts
    )
    truth = Truth(whole, sources)
    places = Places(truth.trace, sources)
    own = exclusive(truth.trace.columns, places.around)
    wrong: Counter[tuple[str, str]] = Counter()
    time: Counter[tuple[str, bool]] = Counter()
    events: Counter[tuple[str, bool]] = Counter()
    for row in np.flatnonzero((truth.mark >= 0) & (places.at >= 0) & ~places.backward).tolist():
        site = places.sites[int(places.at[row])]
        if truth.frames[row] or not site.file.startswith(str(root)):
            continue
        mark = _MARK.fullmatch(whole.names[int(truth.name[row])])
        assert mark is not None
        file, first, last = rows[int(mark[1])]
        right = site.has_line and site.file == file and first <= site.line <= last
        time[site.certainty, right] += int(own[row])
        events[site.certainty, right] += 1
        if not right:
            told = f"{site.file}:{site.line} {site.certainty}, not {file}:{first}"
            wrong[told, truth.trace.names[int(truth.trace.columns.name[row])]] += int(own[row])
    if show:
        for (told, called), spent in wrong.most_common(10):
            print(f"  {spent / 1e6:.2f} ms {told}: {called[:80]}")
    every = sum(time.values())
    unique = events["unique", True] + events["unique", False]
    return {
        "events": sum(events.values()),
        "right_time": round(sum(at for (_, right), at in time.items() if right) / every, 4),
        "right_events": round(
            sum(at for (_, right), at in events.items() if right) / sum(events.values()), 4
        ),
        "unique_time": round((time["unique", True] + time["unique", False]) / every, 4),
        "unique_right_events": round(events["unique", True] / unique, 5),
    }


def main() -> int:
    """Measure all programs; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--keep", metavar="NAME", help="write the figures to results/NAME.json")
    parser.add_argument("--show", action="store_true", help="print what is wrong")
    args = parser.parse_args()
    rows, versions = {}, {"torch": version("torch")}
    for name in PROGRAMS:
        if name != "user":
            if importlib.util.find_spec(name) is None:
                print(f"{name}: skipped, it is not installed")
                continue
            versions[name] = version(name)
        with tempfile.TemporaryDirectory() as folder:
            rows[name] = measured(Path(folder), name, show=args.show)
        print(name, rows[name])
    if args.keep:
        keep(args.keep, {"environment": environment(versions), "programs": rows})
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
