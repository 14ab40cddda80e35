"""Two answers of a recommender as ranked lists: which outputs rank what, and how alike they are."""
