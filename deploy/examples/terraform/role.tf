# The execution role with the least rights, as `python -m deploy policy CONFIG.toml role` prints them.

locals {
  partition = data.aws_partition.this.partition
  place     = "${data.aws_region.this.region}:${data.aws_caller_identity.this.account_id}"
  bucket    = "arn:${local.partition}:s3:::${var.bucket}"
  log_group = "arn:${local.partition}:logs:${local.place}:log-group:/aws/sagemaker/Endpoints/${var.name}"
}

resource "aws_iam_role" "this" {
  name_prefix        = "${substr(var.name, 0, 30)}-"
  assume_role_policy = data.aws_iam_policy_document.trust.json
  tags               = var.tags
}

resource "aws_iam_role_policy" "this" {
  name   = "serve"
  role   = aws_iam_role.this.id
  policy = data.aws_iam_policy_document.role.json
}

data "aws_iam_policy_document" "trust" {
  statement {
    actions = ["sts:AssumeRole"]
    principals {
      type        = "Service"
      identifiers = ["sagemaker.amazonaws.com"]
    }
  }
}

data "aws_iam_policy_document" "role" {
  statement {
    sid       = "ReadArchives"
    actions   = ["s3:GetObject"]
    resources = ["${local.bucket}/${var.prefix}archives/*"]
  }

  statement {
    sid       = "ListArchives"
    actions   = ["s3:ListBucket"]
    resources = [local.bucket]
    condition {
      test     = "StringLike"
      variable = "s3:prefix"
      values   = ["${var.prefix}archives", "${var.prefix}archives/*"]
    }
  }

  statement {
    sid       = "PullImage"
    actions   = ["ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"]
    resources = [var.repository_arn]
  }

  statement {
    sid       = "LogInToRegistry"
    actions   = ["ecr:GetAuthorizationToken"]
    resources = ["*"]
  }

  statement {
    sid = "WriteLogs"
    actions = [
      "logs:CreateLogGroup",
      "logs:CreateLogStream",
      "logs:DescribeLogStreams",
      "logs:PutLogEvents",
    ]
    resources = [local.log_group, "${local.log_group}:*"]
  }

  statement {
    sid       = "PutMetrics"
    actions   = ["cloudwatch:PutMetricData"]
    resources = ["*"]
    condition {
      test     = "StringEquals"
      variable = "cloudwatch:namespace"
      values   = ["AWS/SageMaker", "/aws/sagemaker/Endpoints"]
    }
  }

  dynamic "statement" {
    for_each = length(var.subnets) > 0 ? [1] : []
    content {
      sid     = "MakeInterfaces"
      actions = ["ec2:CreateNetworkInterface"]
      resources = concat(
        ["arn:${local.partition}:ec2:${local.place}:network-interface/*"],
        [for one in var.subnets : "arn:${local.partition}:ec2:${data.aws_region.this.region}:*:subnet/${one}"],
        [for one in var.security_groups : "arn:${local.partition}:ec2:${data.aws_region.this.region}:*:security-group/${one}"],
      )
    }
  }

  dynamic "statement" {
    for_each = length(var.subnets) > 0 ? [1] : []
    content {
      sid = "GiveInterfaces"
      actions = [
        "ec2:CreateNetworkInterfacePermission",
        "ec2:DeleteNetworkInterface",
        "ec2:DeleteNetworkInterfacePermission",
      ]
      resources = ["arn:${local.partition}:ec2:${local.place}:network-interface/*"]
    }
  }

  dynamic "statement" {
    for_each = length(var.subnets) > 0 ? [1] : []
    content {
      sid = "SeeNetwork"
      actions = [
        "ec2:DescribeDhcpOptions",
        "ec2:DescribeNetworkInterfaces",
        "ec2:DescribeSecurityGroups",
        "ec2:DescribeSubnets",
        "ec2:DescribeVpcs",
      ]
      resources = ["*"]
    }
  }
}
