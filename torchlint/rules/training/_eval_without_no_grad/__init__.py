"""TL501: where a model runs that is not trained there, and the block around it."""
