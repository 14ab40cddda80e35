"""An endpoint brought to what is wanted, back, and away."""
