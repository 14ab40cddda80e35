"""A local SageMaker: the platform's side of the multi-model contract, for laptops and tests.

From the command line down; imports go down only:

commands      the command line: serve, up, replay, plan, s3
plan_command  `plan`: PLAN.toml, candidates, the table and the picture
simulation    an endpoint as events of a simulated clock, without a process
replay        `replay`: traffic to an endpoint, and a report about it
control       `serve`: SageMaker, Application Auto Scaling, CloudWatch, S3, ECR, IAM
runners       containers: processes, Docker's, or those that run already
hosting       one endpoint: variants, fleets, and how traffic is split
api           the runtime API: InvokeEndpoint, its errors, its streams
instance      one instance: which models it holds, loads, evicts and asks
archives      where archives come from, and how they are extracted
watch         what is told of all that: events, state, pages, metrics
measuring     numbers, values of files, plots and pages of reports, which bench takes, too
"""
