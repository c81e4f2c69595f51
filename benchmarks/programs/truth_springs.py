"""Made-up series for cmergny/time-series-forecasting: two epochs of three of its models."""

from pathlib import Path

import import_data
import numpy as np
import trainer
from models.LSTM_A import LSTM_Attention
from models.LSTM_AE import LSTM_EncoderDecoder

Path("data").mkdir(exist_ok=True)
Path("out").mkdir(exist_ok=True)
rng = np.random.default_rng(0)
np.savetxt("data/spring_data.txt", rng.normal(size=(500, 3)))
data = import_data.Data(filename="data/spring_data.txt", modes=range(3))
data.prepare_dataset(noise=True, in_out_stride=(20, 6, 5))
size = data.x_train.shape[2]
for model in (LSTM_Attention(size, 8), LSTM_EncoderDecoder(size, 8)):
    trainer.Trainer(model.to(data.device), data).train(epochs=2, bs=8, lr=1e-3, saving_dir="out/")
