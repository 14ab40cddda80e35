// How to point AWS's clients at this simulator, ready to be copied and run.

import { copyButtons } from "./copying.js";
import { say } from "./elements.js";

export class Start {
  constructor(root) {
    this.root = root;
    copyButtons(root);
  }

  draw({ region }) {
    say(this.root.querySelector("#shell"), shell(location.origin, region));
    say(this.root.querySelector("#boto3"), boto3(region));
  }
}

function shell(origin, region) {
  return [
    `export AWS_ENDPOINT_URL=${origin}`,
    `export AWS_DEFAULT_REGION=${region}`,
    "export AWS_ACCESS_KEY_ID=any AWS_SECRET_ACCESS_KEY=any",
  ].join("\n");
}

// In us-east-1 a bucket's region may not be named, elsewhere it must be.
function boto3(region) {
  const place = region === "us-east-1" ? "" : `, CreateBucketConfiguration={"LocationConstraint": "${region}"}`;
  return [
    "import boto3", "",
    's3, sagemaker = boto3.client("s3"), boto3.client("sagemaker")',
    `s3.create_bucket(Bucket="models"${place})`,
    's3.upload_file("a.tar.gz", "models", "shop/a.tar.gz")',
    "sagemaker.create_model(",
    '    ModelName="shop",',
    '    ExecutionRoleArn="arn:aws:iam::123456789012:role/sagemaker",',
    "    PrimaryContainer={",
    `        "Image": "123456789012.dkr.ecr.${region}.amazonaws.com/merlin:1",`,
    '        "Mode": "MultiModel",',
    '        "ModelDataUrl": "s3://models/shop/",',
    "    },",
    ")",
    "variant = {",
    '    "VariantName": "AllTraffic", "ModelName": "shop",',
    '    "InstanceType": "ml.c5.xlarge", "InitialInstanceCount": 1,',
    "}",
    "sagemaker.create_endpoint_config(",
    '    EndpointConfigName="shop", ProductionVariants=[variant]',
    ")",
    'sagemaker.create_endpoint(EndpointName="shop", EndpointConfigName="shop")',
    'waiter = sagemaker.get_waiter("endpoint_in_service")',
    'waiter.wait(EndpointName="shop", WaiterConfig={"Delay": 1})',
    'answer = boto3.client("sagemaker-runtime").invoke_endpoint(',
    '    EndpointName="shop", TargetModel="a.tar.gz",',
    '    ContentType="application/json",',
    '    Body=open("request.json", "rb").read(),',
    ")",
    'print(answer["Body"].read())',
  ].join("\n");
}
