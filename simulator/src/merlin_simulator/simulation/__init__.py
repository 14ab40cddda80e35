"""A discrete-event simulation of an endpoint: hours of requests in seconds, without a process.

Theory of operation.

A `Scenario` (scenario.py) says what is simulated: archives with their measured seconds and bytes, a
type of instance, rules, requests (demand.py). `simulate` (run.py) turns it into an `Outcome`.

1. `EventClock` holds actions by time and runs the earliest; actions of one time run in the order in
   which they were scheduled. Work is a generator: it yields seconds, a slot, or CPU work, and is
   resumed when it has that.
2. Only what changes an instance is an event: a request to a model that is loaded nowhere, a load,
   an unload, an instance. A request to a loaded model is none: `Demand` draws when a model was
   used last, or how many requests came, only when that is needed.
3. A miss (endpoint.py): `route` chooses the instance. `Loader` (loading.py) downloads, makes room
   on the disk and in memory, and loads. Then all who waited are answered and counted as cold.
4. What leaves, waits or is refused is decided by the simulator's own functions: `decide_memory`,
   `decide_eviction`, `decide_disk`, `decide_after_full_disk` of instance/decisions.py. Only their
   sequence stands here once more: loading.py follows instance/holdings.py and instance/memory.py
   step by step, so a change there needs one here; `make plan-table` shows a difference.
5. Warm requests are sampled: at each snapshot (run.py) the rates of an instance's models go through
   a queue of slots and cores (warm_requests.py). Their latencies have weights in the `Outcome`.
6. Autoscaling looks each minute and asks `decide` of control/autoscaling/decision.py.

All draws come from the scenario's seed: equal scenarios have equal outcomes.
"""
