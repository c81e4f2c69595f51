"""Why a line is flagged, or why not: what the analysis holds for true, and which fact
decided."""
