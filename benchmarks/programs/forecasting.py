"""NHiTS of pytorch-forecasting on the package's own generated series, trained by Lightning."""

import lightning.pytorch as pl
from pytorch_forecasting import NHiTS, TimeSeriesDataSet
from pytorch_forecasting.data import NaNLabelEncoder
from pytorch_forecasting.data.examples import generate_ar_data

data = generate_ar_data(seasonality=10.0, timesteps=300, n_series=60, seed=42)
data["static"] = "2"
training = TimeSeriesDataSet(
    data,
    time_idx="time_idx",
    target="value",
    categorical_encoders={"series": NaNLabelEncoder().fit(data.series)},
    group_ids=["series"],
    time_varying_unknown_reals=["value"],
    max_encoder_length=60,
    max_prediction_length=20,
)
loader = training.to_dataloader(train=True, batch_size=64, num_workers=0)
model = NHiTS.from_dataset(
    training, learning_rate=3e-2, hidden_size=64, interpolation_mode="cubic-16"
)
trainer = pl.Trainer(
    max_epochs=5,
    accelerator="auto",
    enable_progress_bar=False,
    logger=False,
    enable_checkpointing=False,
    gradient_clip_val=0.1,
)
trainer.fit(model, train_dataloaders=loader)
