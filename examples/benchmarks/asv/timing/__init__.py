"""What `asv` times."""
