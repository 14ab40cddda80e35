"""What a plan is asked for: PLAN.toml, read and checked."""
