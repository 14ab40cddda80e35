"""The forms in which an archive is served, each a ServingPlan of its own making."""
