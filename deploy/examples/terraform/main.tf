# The endpoint that `python -m deploy up` makes, for those who deploy with Terraform. One or the
# other: `up` and `down` do not touch an endpoint that Terraform made. A test holds it against
# `python -m deploy render`; Terraform itself has not been run on it.
#
# Models and configurations are replaced, and have no name here: the new one is there before the old
# one goes, and two cannot have one name.

terraform {
  required_version = ">= 1.5"
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 6.0"
    }
  }
}

data "aws_partition" "this" {}
data "aws_region" "this" {}
data "aws_caller_identity" "this" {}

locals {
  variant = "AllTraffic"

  # CloudWatch has times in microseconds. New instances have nothing loaded, so only errors bring
  # the old ones back.
  alarms = {
    model-cache-hit = {
      metric = "ModelCacheHit", statistic = "Average", threshold = 0.8, below = true
    }
    model-loading-wait = {
      metric = "ModelLoadingWaitTime", statistic = "Average", threshold = 10000000, below = false
    }
    model-unloading = {
      metric = "ModelUnloadingTime", statistic = "Average", threshold = 5000000, below = false
    }
    errors-5xx = {
      metric = "Invocation5XXErrors", statistic = "Sum", threshold = 0, below = false
    }
  }
}

resource "aws_sagemaker_model" "this" {
  execution_role_arn       = aws_iam_role.this.arn
  enable_network_isolation = false
  tags                     = var.tags

  primary_container {
    image          = var.image
    model_data_url = "s3://${var.bucket}/${var.prefix}archives/"
    mode           = "MultiModel"
    environment    = var.environment

    multi_model_config {
      model_cache_setting = var.model_cache ? "Enabled" : "Disabled"
    }
  }

  dynamic "vpc_config" {
    for_each = length(var.subnets) > 0 ? [1] : []
    content {
      subnets            = var.subnets
      security_group_ids = var.security_groups
    }
  }

  # SageMaker looks whether the role may read.
  depends_on = [aws_iam_role_policy.this]

  lifecycle {
    create_before_destroy = true
  }
}

# The provider has no metrics_config: detailed observability is what AWS's default is, which is on
# since June 2026, with the container's metrics at /metrics.
resource "aws_sagemaker_endpoint_configuration" "this" {
  tags = var.tags

  production_variants {
    variant_name                                      = local.variant
    model_name                                        = aws_sagemaker_model.this.name
    instance_type                                     = var.instance_type
    initial_instance_count                            = var.instance_count
    initial_variant_weight                            = 1.0
    inference_ami_version                             = var.ami
    container_startup_health_check_timeout_in_seconds = 600
    model_data_download_timeout_in_seconds            = 600

    routing_config {
      routing_strategy = "LEAST_OUTSTANDING_REQUESTS"
    }
  }

  lifecycle {
    create_before_destroy = true
  }
}

resource "aws_sagemaker_endpoint" "this" {
  name                 = var.name
  endpoint_config_name = aws_sagemaker_endpoint_configuration.this.name
  tags                 = var.tags

  deployment_config {
    blue_green_update_policy {
      termination_wait_in_seconds          = 300
      maximum_execution_timeout_in_seconds = 3900

      traffic_routing_configuration {
        type                     = "ALL_AT_ONCE"
        wait_interval_in_seconds = 0
      }
    }

    auto_rollback_configuration {
      alarms {
        alarm_name = aws_cloudwatch_metric_alarm.this["errors-5xx"].alarm_name
      }
    }
  }
}

# SageMaker refuses another instance type while this is there: to change the type, destroy it first
# (terraform destroy -target=aws_appautoscaling_target.this), then apply.
resource "aws_appautoscaling_target" "this" {
  service_namespace  = "sagemaker"
  resource_id        = "endpoint/${aws_sagemaker_endpoint.this.name}/variant/${local.variant}"
  scalable_dimension = "sagemaker:variant:DesiredInstanceCount"
  min_capacity       = var.min
  max_capacity       = var.max
}

resource "aws_appautoscaling_policy" "this" {
  name               = "${var.name}-invocations"
  service_namespace  = aws_appautoscaling_target.this.service_namespace
  resource_id        = aws_appautoscaling_target.this.resource_id
  scalable_dimension = aws_appautoscaling_target.this.scalable_dimension
  policy_type        = "TargetTrackingScaling"

  target_tracking_scaling_policy_configuration {
    target_value       = var.invocations_per_instance
    scale_out_cooldown = 300
    scale_in_cooldown  = 900
    disable_scale_in   = false

    predefined_metric_specification {
      predefined_metric_type = "SageMakerVariantInvocationsPerInstance"
    }
  }
}

resource "aws_cloudwatch_metric_alarm" "this" {
  for_each = local.alarms

  # Not the endpoint's own attribute: the endpoint asks for its alarms, so they come first.
  alarm_name          = "${var.name}/${each.key}"
  alarm_description   = "${each.value.metric} of the endpoint ${var.name}"
  namespace           = "AWS/SageMaker"
  metric_name         = each.value.metric
  dimensions          = { EndpointName = var.name, VariantName = local.variant }
  statistic           = each.value.statistic
  period              = 60
  evaluation_periods  = 5
  datapoints_to_alarm = 5
  threshold           = each.value.threshold
  comparison_operator = each.value.below ? "LessThanThreshold" : "GreaterThanThreshold"
  treat_missing_data  = "notBreaching"
  alarm_actions       = var.topics
  ok_actions          = var.topics
  tags                = var.tags
}

output "endpoint_name" {
  description = "What InvokeEndpoint asks for."
  value       = aws_sagemaker_endpoint.this.name
}

output "endpoint_arn" {
  description = "What policies of callers name."
  value       = aws_sagemaker_endpoint.this.arn
}
