"""Many files: isolated workers, the projects around them, their limits, and what earlier
runs found."""
