"""A local SageMaker: the platform's side of the multi-model contract, for laptops and tests."""
