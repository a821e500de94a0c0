package contrail;

import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** request: send each message and wait for its answer. reply: answer every message with "re: " and its body. */
final class RequestReply {
    private RequestReply() {}

    static void request(Call call) throws Exception {
        DefaultMQProducer producer = Produce.plain(call);
        call.configure(producer);
        producer.start();
        try {
            for (Message message : Messages.of(call)) {
                try {
                    Message answer = producer.request(message, call.number("timeoutMs", 5000));
                    call.row("answer", "body", new String(answer.getBody(), StandardCharsets.UTF_8),
                        "properties", answer.getProperties());
                } catch (Exception error) {
                    call.failed(error);
                }
            }
        } finally {
            producer.shutdown();
        }
    }

    static void reply(Call call) throws Exception {
        DefaultMQProducer producer = Produce.plain(call);
        call.configure(producer);
        producer.start();
        DefaultMQPushConsumer consumer = Consume.of(call);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                Messages.row(call, message);
                byte[] body = ("re: " + new String(message.getBody(), StandardCharsets.UTF_8))
                    .getBytes(StandardCharsets.UTF_8);
                try {
                    call.row("replied", "status",
                        producer.send(MessageUtil.createReplyMessage(message, body)).getSendStatus().name());
                } catch (Exception error) {
                    call.failed(error);
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        call.row("ready");
        try {
            if (!call.awaitStop(call.number("timeoutMs", 60000))) {
                call.row("timeout");
            }
        } finally {
            consumer.shutdown();
            producer.shutdown();
        }
    }
}
