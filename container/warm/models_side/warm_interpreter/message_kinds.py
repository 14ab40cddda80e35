"""The words of the messages between a stub and its child, and the codes of Triton's errors."""

# From the child, before it is given a model.
NOT_FORKED, FORKED = "not forked", "forked"
# From the stub.
INITIALIZE, EXECUTE, FINALIZE = "initialize", "execute", "finalize"
# From the child: what came of these, and lines for the log at any time.
FAILED, READY, ANSWERS, RAISED, FINALIZED = "failed", "ready", "answers", "raised", "finalized"
LOG = "log"

CODES = (
    "UNKNOWN",
    "INTERNAL",
    "NOT_FOUND",
    "INVALID_ARG",
    "UNAVAILABLE",
    "UNSUPPORTED",
    "ALREADY_EXISTS",
    "CANCELLED",
)
