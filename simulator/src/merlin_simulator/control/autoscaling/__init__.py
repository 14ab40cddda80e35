"""Application Auto Scaling of endpoints' variants: what is registered, and what is carried out."""
