"""Noisy moments and few noisy rounds."""
