package contrail;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Consume with the push consumer until count messages have succeeded, timeoutMs is over, or stop. Parameters: mode
 * concurrent or orderly; broadcast; pop (5.x); expression, sql; from FIRST, LAST or yyyyMMddHHmmss; fail = how often
 * each message is refused first; maxReconsumeTimes; delayLevelWhenNext; suspendMs; threads; batchSize.
 */
final class Consume {
    private Consume() {}

    static void run(Call call) throws Exception {
        DefaultMQPushConsumer consumer = of(call);
        Outcome outcome = new Outcome(call);
        if ("orderly".equals(call.text("mode", "concurrent"))) {
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
                if (outcome.accepts(messages)) {
                    return ConsumeOrderlyStatus.SUCCESS;
                }
                context.setSuspendCurrentQueueTimeMillis(call.number("suspendMs", 1000));
                return ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT;
            });
        } else {
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                if (outcome.accepts(messages)) {
                    return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
                }
                context.setDelayLevelWhenNextConsume(call.number("delayLevelWhenNext", 0));
                return ConsumeConcurrentlyStatus.RECONSUME_LATER;
            });
        }
        consumer.start();
        call.row("ready", "clientId", consumer.buildMQClientId());
        try {
            if (!await(call, consumer)) {
                call.row("timeout");
            }
        } finally {
            consumer.shutdown();
        }
    }

    /** Whether it was stopped in time. With persistMs offsets go to the broker that often from the beginning; by
     * itself the client waits ten seconds first. */
    private static boolean await(Call call, DefaultMQPushConsumer consumer) throws Exception {
        int left = call.number("timeoutMs", 30000);
        int step = call.args.containsKey("persistMs") ? call.number("persistMs", left) : left;
        while (left > 0) {
            if (call.awaitStop(Math.min(step, left))) {
                return true;
            }
            left -= step;
            consumer.getDefaultMQPushConsumerImpl().persistConsumerOffset();
        }
        return false;
    }

    static DefaultMQPushConsumer of(Call call) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(
            call.text("group"), call.credentials(), new AllocateMessageQueueAveragely(), call.flag("trace"), null);
        call.configure(consumer);
        String from = call.text("from", "FIRST");
        switch (from) {
            case "FIRST":
                consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
                break;
            case "LAST":
                consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET);
                break;
            default:
                consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_TIMESTAMP);
                consumer.setConsumeTimestamp(from);
        }
        if (call.flag("broadcast")) {
            Shim.broadcast(consumer);
        }
        if (call.flag("pop")) {
            Shim.pop(consumer, call);
        }
        consumer.setMaxReconsumeTimes(call.number("maxReconsumeTimes", -1));
        consumer.setConsumeThreadMin(call.number("threads", 4));
        consumer.setConsumeThreadMax(call.number("threads", 4));
        consumer.setConsumeMessageBatchMaxSize(call.number("batchSize", 1));
        consumer.setPullBatchSize(call.number("pullBatchSize", 32));
        for (String topic : call.text("topic").split(",")) {
            if (call.args.containsKey("sql")) {
                consumer.subscribe(topic, MessageSelector.bySql(call.text("sql")));
            } else {
                consumer.subscribe(topic, call.text("expression", "*"));
            }
        }
        return consumer;
    }

    /** What becomes of each message: refused as often as asked for, then counted. */
    private static final class Outcome {
        private final Call call;
        private final AtomicInteger succeeded = new AtomicInteger();
        private final Map<String, Integer> refusals = new HashMap<>();

        Outcome(Call call) {
            this.call = call;
        }

        boolean accepts(List<MessageExt> messages) {
            messages.forEach(message -> Messages.row(call, message));
            boolean refused = false;
            synchronized (refusals) {
                for (MessageExt message : messages) {
                    int before = refusals.merge(message.getMsgId(), 1, Integer::sum) - 1;
                    refused |= before < call.number("fail", 0);
                }
            }
            if (refused) {
                return false;
            }
            if (succeeded.addAndGet(messages.size()) >= call.number("count", Integer.MAX_VALUE)) {
                call.stop();
            }
            return true;
        }
    }
}
