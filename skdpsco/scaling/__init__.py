"""Private scales: bounds and sizes of features, centre and scale of a target."""
