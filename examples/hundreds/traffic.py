"""A day's callers: they ask models by a Zipf law, more of them at noon, and compare each answer."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from examples.hundreds.words import TEXTS, make_request
from examples.story import same_bits
from merlin_simulator.replay.load import zipf_shares

#: Requests that wait for their answers at the same time, at most: who finds all busy asks later.
CALLERS = 12
#: A cold model may take 60 s; with boto3's own limit, 60 s, it would send the request once more.
_ANSWER_S = 70.0


@dataclass(frozen=True)
class Asked:
    """One request that was answered, and in how many seconds.

    at: when it was sent, in seconds since the begin of the day.
    """

    request_id: str
    at: float
    seconds: float
    same: bool


@dataclass(frozen=True)
class Phase:
    """Of the day: so many requests a second for so long, and on until over() says so, or most_s.

    popular: only so many of the models are asked; None: all.
    """

    rate: float
    popular: int | None
    seconds: float
    most_s: float
    over: Callable[[], bool]


@dataclass
class Callers:
    """expected: target model → the model's own logits to each of the TEXTS."""

    endpoint: str
    expected: Mapping[str, Sequence[Sequence[float]]]
    zipf: float
    seed: int
    asked: list[Asked] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    targets_asked: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        config = Config(
            max_pool_connections=CALLERS,
            read_timeout=_ANSWER_S,
            retries={"total_max_attempts": 1},
        )
        self._client = boto3.client("sagemaker-runtime", config=config)
        self._targets, self._random = list(self.expected), random.Random(self.seed)
        # Who is popular has nothing to do with names.
        self._random.shuffle(self._targets)
        self._shares = zipf_shares(len(self._targets), self.zipf)
        self._began = time.monotonic()

    def now(self) -> float:
        """Seconds since the begin of the day."""
        return time.monotonic() - self._began

    async def spend(self, phases: Sequence[Phase]) -> None:
        """The whole day, until the last answer has come.

        The next request does not wait for the one before, while there are CALLERS enough.
        """
        self._began = time.monotonic()
        loop, free = asyncio.get_running_loop(), asyncio.Semaphore(CALLERS)
        with ThreadPoolExecutor(CALLERS) as pool:
            answers = []
            for phase in phases:
                began = due = self.now()
                while not self._is_over(phase, began):
                    some = slice(phase.popular)
                    (target,) = self._random.choices(self._targets[some], self._shares[some])
                    text = self._random.randrange(len(TEXTS))
                    await free.acquire()
                    answer = loop.run_in_executor(pool, self._ask, target, text)
                    answer.add_done_callback(lambda _: free.release())
                    answers.append(answer)
                    self.targets_asked.add(target)
                    due = max(due + 1 / phase.rate, self.now())
                    await asyncio.sleep(max(0.0, due - self.now()))
            await asyncio.gather(*answers)

    def _is_over(self, phase: Phase, began: float) -> bool:
        passed = self.now() - began
        return passed >= phase.most_s or (passed >= phase.seconds and phase.over())

    def _ask(self, target: str, text: int) -> None:
        began = self.now()
        try:
            answer = self._client.invoke_endpoint(
                EndpointName=self.endpoint,
                TargetModel=target,
                ContentType="application/json",
                Body=make_request(TEXTS[text]),
            )
            (logits,) = json.loads(answer["Body"].read())["outputs"]
        except (BotoCoreError, ClientError) as error:
            self.failed.append(f"{target}: {error}")
            return
        same = same_bits(logits["data"], self.expected[target][text])
        if not same:
            print(f"  {target} DIFFERS: {logits['data']}, torch {self.expected[target][text]}")
        metadata: dict[str, Any] = answer["ResponseMetadata"]
        self.asked.append(Asked(metadata["RequestId"], began, self.now() - began, same))
