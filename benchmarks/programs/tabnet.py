"""pytorch-tabnet's own classifier on generated data."""

import numpy as np
from pytorch_tabnet.tab_model import TabNetClassifier
from sklearn.datasets import make_classification

x, y = make_classification(n_samples=40000, n_features=16, n_informative=8, random_state=0)
x = x.astype(np.float32)
clf = TabNetClassifier(seed=0, verbose=1)
clf.fit(
    x[:36000],
    y[:36000],
    eval_set=[(x[36000:], y[36000:])],
    max_epochs=20,
    batch_size=256,
    virtual_batch_size=128,
)
