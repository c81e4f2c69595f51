"""RecBole's FISM on its own ml-100k sample, put together as recbole.quick_start.run_recbole
does."""

from recbole.config import Config
from recbole.data import create_dataset, data_preparation
from recbole.utils import get_model, get_trainer, init_seed

config = Config(
    model="FISM",
    dataset="ml-100k",
    config_dict={"epochs": 60, "train_batch_size": 64, "show_progress": False},
)
init_seed(config["seed"], config["reproducibility"])
dataset = create_dataset(config)
train, valid, test = data_preparation(config, dataset)
model = get_model(config["model"])(config, train._dataset).to(config["device"])
trainer = get_trainer(config["MODEL_TYPE"], config["model"])(config, model)
trainer.fit(train, valid, saved=False, show_progress=False)
