"""A plan's report: one page, its plots, and the trade-off as a picture of its own."""
