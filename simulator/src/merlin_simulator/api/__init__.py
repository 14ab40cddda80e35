"""The runtime API as AWS speaks it: requests, answers, errors, and the stream of answers."""
