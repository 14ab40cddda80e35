"""What is counted of candidates: what they were asked, and how their answers differ."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Counter, Summary

_LABELS = ("target_model", "model_name")


class CandidateMetrics:
    """Series by model, there from its candidate's first request to the model's unload.

    registry: None where nobody reads them. target_of: the archive's name for a model's.
    """

    def __init__(
        self,
        registry: CollectorRegistry | None = None,
        target_of: Callable[[str], str] = str,
    ) -> None:
        self._target_of = target_of
        self._requests = Counter(
            "serve_candidate_requests",
            "Requests that models' candidates were asked, after their models had answered them.",
            _LABELS,
            registry=registry,
        )
        self._errors = Counter(
            "serve_candidate_errors",
            "Requests that the model answered and its candidate did not, or not with the model's"
            " outputs.",
            _LABELS,
            registry=registry,
        )
        self._drops = Counter(
            "serve_candidate_drops",
            "Candidates that were dropped; the log says why.",
            _LABELS,
            registry=registry,
        )
        self._overlap = Summary(
            "serve_candidate_overlap",
            "The share of the first k places that hold the same items in the model's and its"
            " candidate's lists, from 0 to 1.",
            (*_LABELS, "k"),
            registry=registry,
        )
        self._seconds = Summary(
            "serve_candidate_seconds",
            "Seconds in tritonserver of the requests that both were asked: of the model, of the"
            " candidate.",
            (*_LABELS, "of"),
            registry=registry,
        )

    def asked(self, model_name: str) -> None:
        """A candidate is asked a request."""
        labels = self._find_labels(model_name)
        self._requests.labels(*labels).inc()
        self._errors.labels(*labels)  # from 0 on

    def failed(self, model_name: str) -> None:
        """It did not answer it, or with other outputs."""
        self._errors.labels(*self._find_labels(model_name)).inc()

    def answered(
        self,
        model_name: str,
        model_s: float,
        candidate_s: float,
        overlaps: Iterable[tuple[int, float]],
    ) -> None:
        """It did. overlaps: k and overlap@k, of each list."""
        labels = self._find_labels(model_name)
        self._seconds.labels(*labels, "model").observe(model_s)
        self._seconds.labels(*labels, "candidate").observe(candidate_s)
        for k, overlap in overlaps:
            self._overlap.labels(*labels, k).observe(overlap)

    def dropped(self, model_name: str) -> None:
        """It is asked no more, though its model is."""
        self._drops.labels(*self._find_labels(model_name)).inc()

    def forget(self, model_name: str) -> None:
        """The model is unloaded, and its series end."""
        for metric in (self._requests, self._errors, self._drops, self._overlap, self._seconds):
            metric.remove_by_labels({"model_name": model_name})

    def _find_labels(self, model_name: str) -> tuple[str, str]:
        return self._target_of(model_name), model_name
