"""What a load does with an archive: plans its form, holds it against limits, publishes it."""
