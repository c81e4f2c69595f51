"""TL9xx: Lightning, torchmetrics and Hugging Face."""
