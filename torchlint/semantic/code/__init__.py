"""The file as it is written: tree, names, flow, conditions. Of torch it knows the tables alone."""
