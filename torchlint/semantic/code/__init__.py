"""The file as it is written: tree, names, flow, conditions. No knowledge of torch."""
