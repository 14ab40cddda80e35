"""What the endpoint tells of itself: events, its state, the page, the console and CloudWatch."""
