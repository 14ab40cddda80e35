"""SageMaker's own calls: models, endpoint configurations, endpoints, their tags."""
