"""SetFit's trainer, built on the Hugging Face Trainer, with its SupCon loss: a tiny random BERT,
made-up texts."""

import random
from pathlib import Path

from datasets import Dataset
from sentence_transformers import SentenceTransformer, models
from setfit import SetFitModel, Trainer, TrainingArguments
from setfit.losses import SupConLoss
from sklearn.linear_model import LogisticRegression
from transformers import BertConfig, BertModel, BertTokenizerFast

words = [f"w{i}" for i in range(200)]
home = Path("tiny")
home.mkdir(exist_ok=True)
(home / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]))
tokenizer = BertTokenizerFast(vocab_file=str(home / "vocab.txt"))
config = BertConfig(
    vocab_size=205,
    hidden_size=64,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=128,
)
BertModel(config).save_pretrained(home)
tokenizer.save_pretrained(home)
body = SentenceTransformer(
    modules=[models.Transformer(str(home), max_seq_length=32), models.Pooling(64)], device="cpu"
)
rng = random.Random(0)
rows = [
    {"text": " ".join(rng.choices(words, k=12)), "label": rng.randrange(4)} for _ in range(3000)
]
model = SetFitModel(model_body=body, model_head=LogisticRegression(), labels=["a", "b", "c", "d"])
args = TrainingArguments(
    batch_size=16,
    num_epochs=3,
    loss=SupConLoss,
    report_to="none",
    logging_strategy="no",
    eval_strategy="no",
    save_strategy="no",
)
Trainer(model=model, args=args, train_dataset=Dataset.from_list(rows)).train()
