"""The values of a server's settings, put over what a client sent."""

from __future__ import annotations

from typing import Final

from contrailmq.errors import FilterError
from contrailmq.grpc import checks
from contrailmq.grpc.codes import Code, Refusal
from contrailmq.grpc.messages import FilterExpression, FilterType, Moment
from contrailmq.grpc.messages_settings import (
    CustomizedBackoff,
    ExponentialBackoff,
    Metric,
    RetryPolicy,
    Settings,
)
from contrailmq.protocol.bodies.group import SubscriptionGroupConfig
from contrailmq.protocol.filter.tags import TYPE_SQL92, TYPE_TAG, parse_tags

SEND_ATTEMPTS: Final = 3
RECEIVE_BATCH_SIZE: Final = 32
LONG_POLLING_MS: Final = 20_000
SUBSCRIPTIONS_MAX: Final = 10_000
RETRY_MS: Final = (
    *(1000 * seconds for seconds in (1, 5, 10, 30)),
    *(60_000 * minutes for minutes in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 30, 60, 120)),
)


def check_settings(settings: Settings) -> None:
    """Refuse names and filters no client may have; one of both kinds must be there."""
    publishing, subscription = settings.publishing, settings.subscription
    if publishing is not None:
        for topic in publishing.topics:
            checks.topic_of(topic)
    elif subscription is not None:
        checks.group_of(subscription.group)
        for entry in subscription.subscriptions:
            checks.topic_of(entry.topic)
            filter_of(entry.expression)
    else:
        raise Refusal(Code.BAD_REQUEST, "there is no publishing or subscription data in settings")


def filter_of(expression: FilterExpression | None) -> tuple[str, str]:
    """The type and the text of a filter; refuses what cannot be one."""
    if expression is None:
        return TYPE_TAG, "*"
    text = expression.expression
    if expression.type == FilterType.SQL:
        if not text.strip():
            raise Refusal(Code.ILLEGAL_FILTER_EXPRESSION, "Expression can't be null! SQL92")
        return TYPE_SQL92, text
    try:
        parse_tags(text)
    except FilterError as error:
        raise Refusal(Code.ILLEGAL_FILTER_EXPRESSION, str(error)) from None
    return TYPE_TAG, text or "*"


def merged(settings: Settings, group: SubscriptionGroupConfig | None, *, body_max: int) -> Settings:
    """The answer: the client's own settings with the server's values over them."""
    settings.metric = Metric()
    if settings.publishing is not None:
        backoff = ExponentialBackoff(Moment.of_ms(10), Moment.of_ms(1000), 2.0)
        settings.backoff_policy = RetryPolicy(SEND_ATTEMPTS, backoff)
        settings.publishing.max_body_size = body_max
        settings.publishing.validate_message_type = True
    subscription = settings.subscription
    if subscription is not None:
        config = group if group is not None else SubscriptionGroupConfig()
        settings.backoff_policy = retry_policy(config)
        subscription.fifo = config.consume_message_orderly
        subscription.receive_batch_size = RECEIVE_BATCH_SIZE
        subscription.long_polling_timeout = Moment.of_ms(LONG_POLLING_MS)
    return settings


def retry_policy(config: SubscriptionGroupConfig) -> RetryPolicy:
    """How the consumers of a group try again."""
    attempts = config.retry_max_times + 1
    policy = config.group_retry_policy
    exponential = policy.exponential_retry_policy
    if policy.type == "EXPONENTIAL" and exponential is not None:
        backoff = ExponentialBackoff(
            Moment.of_ms(exponential.initial),
            Moment.of_ms(exponential.max),
            float(exponential.multiplier),
        )
        return RetryPolicy(attempts, backoff)
    customized = policy.customized_retry_policy
    steps = customized.next if customized is not None and customized.next else RETRY_MS
    return RetryPolicy(attempts, None, CustomizedBackoff([Moment.of_ms(step) for step in steps]))


def retry_ms(config: SubscriptionGroupConfig, attempt: int) -> int:
    """How long a message rests after an attempt that failed."""
    policy = retry_policy(config)
    if policy.exponential_backoff is not None:
        backoff = config.group_retry_policy.exponential_retry_policy
        assert backoff is not None
        return int(min(backoff.initial * backoff.multiplier ** min(attempt, 32), backoff.max))
    assert policy.customized_backoff is not None
    steps = policy.customized_backoff.next
    return steps[min(max(attempt - 1, 0), len(steps) - 1)].ms
