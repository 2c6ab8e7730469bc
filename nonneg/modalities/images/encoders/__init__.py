"""Networks from images to one vector per sample, by name."""
