"""The same endpoint as a CloudFormation template, made without asking anybody."""
