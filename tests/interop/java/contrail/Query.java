package contrail;

import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.MessageQueue;

/** Find messages: by = key (key, max, beginMs, endMs), id (messageId), time (queue offsets at a time), committed. */
final class Query {
    private Query() {}

    static void run(Call call) throws Exception {
        switch (call.text("by")) {
            case "key":
            case "id":
                found(call);
                break;
            case "time":
            case "committed":
                offsets(call);
                break;
            default:
                throw new IllegalArgumentException("no query by " + call.text("by"));
        }
    }

    private static void found(Call call) throws Exception {
        DefaultMQProducer producer = Produce.plain(call);
        call.configure(producer);
        producer.start();
        try {
            if ("id".equals(call.text("by"))) {
                Messages.row(call, producer.viewMessage(call.text("topic"), call.text("messageId")));
                return;
            }
            long begin = call.args.getLongValue("beginMs");
            long end = call.args.containsKey("endMs") ? call.args.getLongValue("endMs") : Long.MAX_VALUE;
            var result = producer.queryMessage(call.text("topic"), call.text("key"), call.number("max", 32), begin, end);
            result.getMessageList().forEach(message -> Messages.row(call, message));
        } finally {
            producer.shutdown();
        }
    }

    private static void offsets(Call call) throws Exception {
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer(call.text("group", "driver-query"), call.credentials());
        call.configure(consumer);
        consumer.start();
        try {
            for (MessageQueue queue : consumer.fetchSubscribeMessageQueues(call.text("topic"))) {
                long offset = "time".equals(call.text("by"))
                    ? consumer.searchOffset(queue, call.args.getLongValue("timeMs"))
                    : consumer.fetchConsumeOffset(queue, true);
                call.row("offset", "queueId", queue.getQueueId(), "brokerName", queue.getBrokerName(),
                    "offset", offset, "minOffset", consumer.minOffset(queue), "maxOffset", consumer.maxOffset(queue));
            }
        } finally {
            consumer.shutdown();
        }
    }
}
