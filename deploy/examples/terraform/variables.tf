# What CONFIG.toml of `python -m deploy` has, under the same names where there are some; `python -m
# deploy example` prints why each is chosen.

variable "name" {
  description = "The endpoint's name."
  type        = string
  default     = "shop"
}

variable "image" {
  description = "The image, with its digest: under a tag that has moved, nothing is deployed anew."
  type        = string
}

variable "repository_arn" {
  description = "The image's repository, which the role may pull from."
  type        = string
}

variable "bucket" {
  description = "The bucket that has the archives."
  type        = string
}

variable "prefix" {
  description = "What `put` was given behind the bucket; empty, or with a slash at its end."
  type        = string
  default     = "shop/"
}

variable "instance_type" {
  description = "All archives that get traffic should fit its memory."
  type        = string
  default     = "ml.g5.xlarge"
}

variable "instance_count" {
  description = "Instances at the start, and after each update: the provider does not keep what autoscaling made of them."
  type        = number
  default     = 2
}

variable "ami" {
  description = "The host's image, which chooses its NVIDIA driver; null: AWS's choice, an old one."
  type        = string
  default     = "al2-ami-sagemaker-inference-gpu-3-1"
}

variable "model_cache" {
  description = "false: an instance keeps no archive that is not in use."
  type        = bool
  default     = true
}

variable "environment" {
  description = "Variables of the container, as docs/settings.md has them."
  type        = map(string)
  default     = {}
}

variable "subnets" {
  description = "Subnets of your VPC; none: SageMaker's own network."
  type        = list(string)
  default     = []
}

variable "security_groups" {
  description = "What those interfaces may reach."
  type        = list(string)
  default     = []
}

variable "min" {
  description = "Fewer instances than this never run."
  type        = number
  default     = 2
}

variable "max" {
  description = "More instances than this never run."
  type        = number
  default     = 8
}

variable "invocations_per_instance" {
  description = "Requests a minute that one instance is to have."
  type        = number
  default     = 3000
}

variable "topics" {
  description = "SNS topics that alarms go to, and their ends."
  type        = list(string)
  default     = []
}

variable "tags" {
  description = "Of everything that is made."
  type        = map(string)
  default     = {}
}
