"""A comparison of private learning methods on many data sets: see docs/field.md."""
