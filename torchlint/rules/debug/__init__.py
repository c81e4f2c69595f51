"""TL8xx: profiling and debugging left on."""
