"""What tritonserver's errors mean: whose fault one is, and what is told of it. No I/O.

An inference that is answered with no 200; serve/invoke/failures.py asks, in this order:

    the message                           verdict                the caller's sentence
    1 no model was given the request      STUB_DIED, NOT_LOADED  after one reload: model_errors
      (verdicts)                          UNAVAILABLE            verdicts.SENTENCES
                                          QUEUE_REFUSED          verdicts.SENTENCES
    2 of a store or the endpoint          STORE_DOWN, ENDPOINT   verdicts.SENTENCES
      (verdicts)
    3 of a request that is unreadable or  CALLER                 request_mistakes
      does not fit the model (verdicts)
    4 a lack of memory or the like        EXHAUSTED              verdicts.SENTENCES
      (exhaustion)
    5 what a model raised; any other 5xx  MODEL                  model_errors, or the mistake in the
      (verdicts)                                                 request (invoke/column_mistakes.py)
    6 anything else                       CALLER                 the message

What a model raises behind the first piece of a stream has no verdict: stream_errors, model_errors.
A load that fails: exhaustion, then load_errors (serve/triton/control.py asks).
"""
