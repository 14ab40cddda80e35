"""A sample of requests and answers, in SageMaker's data-capture form (docs/capture.md)."""
