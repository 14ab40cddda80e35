"""From an export to an autoscaled endpoint: push, put, up, status, invoke, rollback, down, render.

command_line        every command with its options
commands            what each does and prints
config              CONFIG.toml: its sections, its values, mistakes with their lines
desired             what AWS should have for a CONFIG.toml, as requests
account, refusals   the only way to AWS, and its errors in sentences
archives            put: archives in S3, the names that mean them, the proof before they do
push, engine        push: an image of this machine's Docker engine, to ECR
endpoint            up, rollback, down
status              collect, compare, show
invoke              one request and its answer
policies, template  what is printed for other tools: IAM's policies, a CloudFormation template

It knows AWS by boto3, and archives by ensemble_tools.shipping alone. No image contains it.
"""
