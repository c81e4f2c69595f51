"""GATE of pytorch-tabular on generated data, trained by Lightning."""

import pandas as pd
from pytorch_tabular import TabularModel
from pytorch_tabular.config import DataConfig, OptimizerConfig, TrainerConfig
from pytorch_tabular.models import GatedAdditiveTreeEnsembleConfig
from sklearn.datasets import make_classification

x, y = make_classification(n_samples=20000, n_features=12, n_informative=6, random_state=0)
data = pd.DataFrame(x, columns=[f"f{i}" for i in range(12)])
data["target"] = y
model = TabularModel(
    data_config=DataConfig(target=["target"], continuous_cols=[f"f{i}" for i in range(12)]),
    model_config=GatedAdditiveTreeEnsembleConfig(
        task="classification", num_trees=4, tree_depth=3, gflu_stages=2, tree_wise_attention=True
    ),
    optimizer_config=OptimizerConfig(),
    trainer_config=TrainerConfig(
        max_epochs=20,
        batch_size=128,
        progress_bar="none",
        checkpoints=None,
        load_best=False,
        early_stopping=None,
        accelerator="auto",
        trainer_kwargs={"enable_model_summary": False},
    ),
    verbose=False,
)
model.fit(train=data)
