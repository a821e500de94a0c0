package contrail;

import com.alibaba.fastjson.JSONObject;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.protocol.heartbeat.MessageModel;

/** Where 4.9 and 5.x differ in their Java interface: the 4.9 side. */
final class Shim {
    private Shim() {}

    static void broadcast(DefaultMQPushConsumer consumer) {
        consumer.setMessageModel(MessageModel.BROADCASTING);
    }

    static void broadcast(DefaultLitePullConsumer consumer) {
        consumer.setMessageModel(MessageModel.BROADCASTING);
    }

    static void pop(DefaultMQPushConsumer consumer, Call call) {
        throw new UnsupportedOperationException("the 4.9 client has no pop");
    }

    static void timer(Message message, JSONObject given) {
        if (given.containsKey("deliverMs") || given.containsKey("delayMs")) {
            throw new UnsupportedOperationException("the 4.9 client has no timer messages");
        }
    }
}
