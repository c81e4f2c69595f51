"""Why a line is flagged, or why it is not: what the analysis holds for true, and which fact decided for each rule."""
