package contrail;

import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.TreeSet;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** The two consumers that ask: pull (every queue to its end) and lite pull (poll, seek, commit). */
final class Pull {
    private Pull() {}

    /** Every queue of the topic, or queueId, or light (a light queue), from offset (or its first) to its end. */
    static void pull(Call call) throws Exception {
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer(call.text("group", "driver-pull"), call.credentials());
        call.configure(consumer);
        consumer.start();
        try {
            for (MessageQueue queue : new TreeSet<>(consumer.fetchSubscribeMessageQueues(call.text("topic")))) {
                if (call.args.containsKey("light")) {
                    consumer.maxOffset(queue); // only the parent's route names the broker
                    pull(call, consumer, new MessageQueue(call.text("light"), queue.getBrokerName(), 0));
                    break;
                }
                if (queue.getQueueId() == call.number("queueId", queue.getQueueId())) {
                    pull(call, consumer, queue);
                }
            }
        } finally {
            consumer.shutdown();
        }
    }

    private static void pull(Call call, DefaultMQPullConsumer consumer, MessageQueue queue) throws Exception {
        long first = consumer.minOffset(queue);
        call.row("queue", "brokerName", queue.getBrokerName(), "queueId", queue.getQueueId(),
            "minOffset", first, "maxOffset", consumer.maxOffset(queue));
        long offset = call.number("offset", (int) first);
        while (!call.isStopped()) {
            PullResult result = call.args.containsKey("sql")
                ? consumer.pull(queue, MessageSelector.bySql(call.text("sql")), offset, call.number("max", 32))
                : consumer.pull(queue, call.text("expression", "*"), offset, call.number("max", 32));
            call.row("pulled", "queueId", queue.getQueueId(), "status", result.getPullStatus().name(),
                "offset", offset, "nextBeginOffset", result.getNextBeginOffset(),
                "minOffset", result.getMinOffset(), "maxOffset", result.getMaxOffset());
            if (result.getMsgFoundList() != null) {
                result.getMsgFoundList().forEach(message -> Messages.row(call, message));
            }
            boolean stuck = result.getNextBeginOffset() == offset && result.getPullStatus() != PullStatus.FOUND;
            offset = result.getNextBeginOffset();
            if (stuck || result.getPullStatus() == PullStatus.NO_NEW_MSG || offset >= result.getMaxOffset()) {
                break;
            }
        }
        if (call.flag("commit")) {
            consumer.updateConsumeOffset(queue, offset);
        }
    }

    /** Poll until count messages have come or timeoutMs is over; assign: true instead of a subscription. */
    static void litePull(Call call) throws Exception {
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(call.text("group"), call.credentials());
        call.configure(consumer);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setAutoCommit(!call.flag("manualCommit"));
        consumer.setPullBatchSize(call.number("pullBatchSize", 10));
        if (call.flag("broadcast")) {
            Shim.broadcast(consumer);
        }
        if (!call.flag("assign")) {
            if (call.args.containsKey("sql")) {
                consumer.subscribe(call.text("topic"), MessageSelector.bySql(call.text("sql")));
            } else {
                consumer.subscribe(call.text("topic"), call.text("expression", "*"));
            }
        }
        consumer.start();
        call.row("ready");
        try {
            if (call.flag("assign")) {
                assign(call, consumer);
            }
            poll(call, consumer);
            if (call.flag("manualCommit")) {
                consumer.commitSync();
            }
        } finally {
            consumer.shutdown();
        }
    }

    private static void assign(Call call, DefaultLitePullConsumer consumer) throws Exception {
        Collection<MessageQueue> queues = consumer.fetchMessageQueues(call.text("topic"));
        List<MessageQueue> own = new ArrayList<>(queues);
        consumer.assign(own);
        if (call.flag("seekToBegin")) {
            for (MessageQueue queue : own) {
                consumer.seekToBegin(queue);
            }
        }
    }

    private static void poll(Call call, DefaultLitePullConsumer consumer) {
        long end = System.currentTimeMillis() + call.number("timeoutMs", 30000);
        int count = 0;
        while (count < call.number("count", Integer.MAX_VALUE) && !call.isStopped()) {
            if (System.currentTimeMillis() > end) {
                call.row("timeout");
                return;
            }
            List<MessageExt> messages = consumer.poll(call.number("pollMs", 500));
            messages.forEach(message -> Messages.row(call, message));
            count += messages.size();
        }
    }
}
