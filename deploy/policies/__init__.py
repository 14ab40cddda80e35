"""The least that IAM must allow, to whom: the endpoint's role, whoever deploys, a tenant."""
