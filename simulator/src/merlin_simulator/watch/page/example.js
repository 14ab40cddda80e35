// How to invoke this endpoint, ready to be copied.

import { copyButtons } from "./copying.js";
import { say } from "./elements.js";

const NO_MODEL = "MODEL.tar.gz";

export class Example {
  constructor(root) {
    this.root = root;
    this.model = null;
    copyButtons(root);
  }

  // The first model that is seen stays: an example that changes cannot be copied.
  draw(state) {
    this.model ??= state.multi_model ? someModel(state) : null;
    const target = state.multi_model ? this.model ?? NO_MODEL : null;
    say(this.root.querySelector("#curl"), curl(location.origin, state.endpoint_name, target));
    say(this.root.querySelector("#boto3"), boto3(location.origin, state.endpoint_name, target));
  }
}

function someModel(state) {
  const models = state.instances.flatMap((instance) => instance.models);
  const chosen = models.find((model) => model.state === "loaded") ?? models[0];
  return chosen?.target_model ?? null;
}

function curl(origin, endpoint, target) {
  const url = `${origin}/endpoints/${encodeURIComponent(endpoint)}/invocations`;
  const lines = [
    `curl ${quoted(url)}`,
    "-H 'Content-Type: application/json'",
    ...(target === null ? [] : [`-H ${quoted(`X-Amzn-SageMaker-Target-Model: ${target}`)}`]),
    "--data-binary @request.json",
  ];
  return lines.join(" \\\n  ");
}

function boto3(origin, endpoint, target) {
  return [
    "import boto3", "",
    "runtime = boto3.client(",
    '    "sagemaker-runtime",',
    `    endpoint_url=${JSON.stringify(origin)},`,
    '    region_name="us-east-1",',
    '    aws_access_key_id="any",',
    '    aws_secret_access_key="any",',
    ")",
    "answer = runtime.invoke_endpoint(",
    `    EndpointName=${JSON.stringify(endpoint)},`,
    ...(target === null ? [] : [`    TargetModel=${JSON.stringify(target)},`]),
    '    ContentType="application/json",',
    '    Body=open("request.json", "rb").read(),',
    ")",
    'print(answer["Body"].read())',
  ].join("\n");
}

// As a shell takes it.
function quoted(text) {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
