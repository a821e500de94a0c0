"""What can be deleted of a store: queues of topics, and what is old."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from contrailmq.store.batch_queue import BatchQueues
from contrailmq.store.consume_queue import ConsumeQueue, ConsumeQueues
from contrailmq.store.derive import Derivation
from contrailmq.store.keep import Keeping
from contrailmq.store.recovery.queue_marks import MarksFile
from contrailmq.store.retention import Retention


class RemovalCalls:
    """The calls that delete. All on the loop; none waits."""

    queues: ConsumeQueues
    batches: BatchQueues
    derivation: Derivation
    _marks: MarksFile
    _keeping: Keeping
    _retention: Retention

    def delete_topic(self, topic: str) -> int:
        """Delete the queues of a topic; its records stay in the log. How many queues it had."""
        queues = self.queues.of_topic(topic)
        deleted = {topic: self.derivation.derived_offset} if queues else {}
        batches = self.batches.of_topic(topic)
        for queue in batches:
            self.derivation.forget(topic, queue.queue_id)
            self.batches.remove(queue)
        count = self._remove_queues(queues, deleted) + len(batches)
        self.derivation.deriver.forget_topic(topic.encode())
        return count

    def delete_expired(self) -> None:
        """Delete what is old enough in the next rounds, not at the hour of deletion."""
        self._retention.ask()

    def clean_expired_queues(self, is_kept: Callable[[str], bool]) -> int:
        """Delete queues whose newest record is gone from the log; how many."""
        return self._remove_queues(
            [queue for queue in self._keeping.expired_queues() if not is_kept(queue.topic)]
        )

    def clean_unused_topics(self, known: Collection[str]) -> int:
        """Delete the queues of topics that are not known; how many queues."""
        return sum(self.delete_topic(topic) for topic in self._keeping.unused_topics(known))

    def _remove_queues(
        self, queues: list[ConsumeQueue], deleted: Mapping[str, int] | None = None
    ) -> int:
        self._marks.forget(queues, deleted or {})  # first: a crash shall not bring them back
        for queue in queues:
            self.derivation.forget(queue.topic, queue.queue_id)
            self.queues.remove(queue)
        return len(queues)
