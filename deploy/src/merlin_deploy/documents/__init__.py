"""What is printed for other tools: policies of IAM, a CloudFormation template. AWS is not asked."""
