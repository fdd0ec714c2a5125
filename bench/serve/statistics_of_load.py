"""Computes the results of a load test from the times of its requests, without a clock or a network.

The definitions are those of `vllm bench serve`:

  TTFT  time to first token: request sent to first chunk with `choices`
  ITL   inter-token latency: the gaps between chunks of a request, of all requests together
  E2EL  end-to-end latency: request sent to last chunk with `choices`
  TPOT  time per output token after the first: (E2EL - TTFT) / (output tokens - 1)

Throughputs are sums over the whole run's duration; goodput counts the requests that meet every objective.
"""

from dataclasses import dataclass, field

PERCENTILES = (90, 99)
METRICS = ("ttft", "tpot", "itl", "e2el")


@dataclass
class Answer:
    """One request and what came of it. Times in seconds of one clock."""

    sent: float = 0.0
    chunks: list = field(default_factory=list)  # when chunks with `choices` arrived
    finished: float = 0.0  # when the response had ended, whatever its status
    prompt_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    expected_tokens: int = 0
    failure: str = ""  # "" or why it failed, such as "429"
    detail: str = ""

    @property
    def ttft(self):
        return self.chunks[0] - self.sent

    @property
    def e2el(self):
        return self.chunks[-1] - self.sent

    @property
    def tpot(self):
        """None for an answer of one token, which has no time per further token."""
        return (self.e2el - self.ttft) / (self.output_tokens - 1) if self.output_tokens > 1 else None

    @property
    def gaps(self):
        return [after - before for before, after in zip(self.chunks, self.chunks[1:])]


def percentile(values, percent):
    """With linear interpolation, as NumPy's default."""
    ordered = sorted(values)
    place = (len(ordered) - 1) * percent / 100
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def max_at_once(answers):
    """How many requests were under way at the same time."""
    events = [(answer.sent, 1) for answer in answers] + [(answer.finished, -1) for answer in answers]
    most = running = 0
    for _, change in sorted(events):
        running += change
        most = max(most, running)
    return most


def meets(answer, objectives):
    """Whether the answer meets all objectives {"ttft": ms, ...}. An answer of one token has a TPOT of 0."""
    return all((getattr(answer, metric) or 0) * 1000 <= limit for metric, limit in objectives.items())


def wrong_lengths(answers):
    """Complete answers that have another number of tokens than was asked for: their times compare with nothing."""
    return [answer for answer in answers if not answer.failure and answer.output_tokens != answer.expected_tokens]


def failures(answers):
    counts = {}
    for answer in answers:
        if answer.failure:
            counts[answer.failure] = counts.get(answer.failure, 0) + 1
    return counts


def summary(answers, duration, objectives=None):
    """All figures, named as in the JSON of `vllm bench serve`; milliseconds, tokens, per second."""
    good = [answer for answer in answers if not answer.failure]
    values = {
        "ttft": [answer.ttft for answer in good],
        "tpot": [answer.tpot for answer in good if answer.tpot is not None],
        "itl": [gap for answer in good for gap in answer.gaps],
        "e2el": [answer.e2el for answer in good],
    }
    inputs = sum(answer.prompt_tokens for answer in good)
    outputs = sum(answer.output_tokens for answer in good)
    result = {
        "duration": duration,
        "completed": len(good),
        "failed": failures(answers),
        "max_concurrent_requests": max_at_once(answers),
        "total_input_tokens": inputs,
        "total_cached_tokens": sum(answer.cached_tokens for answer in good),
        "total_output_tokens": outputs,
        "request_throughput": len(good) / duration,
        "output_throughput": outputs / duration,
        "total_token_throughput": (inputs + outputs) / duration,
    }
    if objectives:
        result["request_goodput"] = sum(meets(answer, objectives) for answer in good) / duration
    for metric in METRICS:
        in_ms = [1000 * value for value in values[metric]]
        if not in_ms:
            continue
        result[f"mean_{metric}_ms"] = sum(in_ms) / len(in_ms)
        result[f"median_{metric}_ms"] = percentile(in_ms, 50)
        for percent in PERCENTILES:
            result[f"p{percent}_{metric}_ms"] = percentile(in_ms, percent)
    return result


def table(result):
    """The summary for people."""
    lines = []

    def row(label, value, unit=""):
        shown = f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"
        lines.append(f"{label:<34}{shown:>12} {unit}".rstrip())

    row("Successful requests", result["completed"])
    failed = result["failed"]
    row("Failed requests", sum(failed.values()))
    for reason, number in sorted(failed.items()):
        row(f"  {reason}", number)
    row("Most requests at once", result["max_concurrent_requests"])
    row("Duration", result["duration"], "s")
    row("Prompt tokens", result["total_input_tokens"])
    row("  of these from the prefix cache", result["total_cached_tokens"])
    row("Output tokens", result["total_output_tokens"])
    row("Request throughput", result["request_throughput"], "requests/s")
    if "request_goodput" in result:
        row("Request goodput", result["request_goodput"], "requests/s")
    row("Output token throughput", result["output_throughput"], "tokens/s")
    row("Total token throughput", result["total_token_throughput"], "tokens/s")
    columns = ["mean", "median", *(f"p{percent}" for percent in PERCENTILES)]
    lines += ["", f"{'milliseconds':<16}" + "".join(f"{column:>12}" for column in columns)]
    for metric in METRICS:
        if f"mean_{metric}_ms" in result:
            cells = "".join(f"{result[f'{column}_{metric}_ms']:>12,.2f}" for column in columns)
            lines.append(f"{metric.upper():<16}{cells}")
    return "\n".join(lines)
