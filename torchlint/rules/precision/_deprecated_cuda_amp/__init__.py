"""TL408: who would notice that `torch.cuda.amp` became `torch.amp`."""
