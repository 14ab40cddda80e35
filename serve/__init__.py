"""What is asked: the SageMaker container contracts over HTTP, in front of tritonserver."""
