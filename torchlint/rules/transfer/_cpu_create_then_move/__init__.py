"""TL102: where the tensors that a factory makes on the CPU go, and host indices."""
