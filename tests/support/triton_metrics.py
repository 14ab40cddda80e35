"""tritonserver's own metrics that pages and the dashboard name; a contract test finds each."""

from __future__ import annotations

TRITON_METRICS = frozenset(
    {
        "nv_inference_compute_infer_duration_us",
        "nv_inference_count",
        "nv_inference_exec_count",
        "nv_inference_queue_duration_us",
        "nv_inference_request_duration_us",
        "nv_inference_request_success",
    }
)
