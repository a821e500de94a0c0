package contrail;

import com.alibaba.fastjson.JSONObject;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageRequestMode;
import org.apache.rocketmq.remoting.protocol.heartbeat.MessageModel;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/** Where 4.9 and 5.x differ in their Java interface: the 5.x side. */
final class Shim {
    private Shim() {}

    static void broadcast(DefaultMQPushConsumer consumer) {
        consumer.setMessageModel(MessageModel.BROADCASTING);
    }

    static void broadcast(DefaultLitePullConsumer consumer) {
        consumer.setMessageModel(MessageModel.BROADCASTING);
    }

    /** Tell the broker (parameter broker) that this group pops this topic, and leave rebalancing to it. */
    static void pop(DefaultMQPushConsumer consumer, Call call) throws Exception {
        DefaultMQAdminExt admin = new DefaultMQAdminExt();
        call.configure(admin);
        admin.start();
        try {
            admin.setMessageRequestMode(call.text("broker"), call.text("topic"), call.text("group"),
                MessageRequestMode.POP, call.number("popShareQueueNum", 0), 5000);
        } finally {
            admin.shutdown();
        }
        consumer.setClientRebalance(false);
        consumer.setPopInvisibleTime(call.number("invisibleMs", 60000));
    }

    static void timer(Message message, JSONObject given) {
        if (given.containsKey("deliverMs")) {
            message.setDeliverTimeMs(given.getLongValue("deliverMs"));
        }
        if (given.containsKey("delayMs")) {
            message.setDelayTimeMs(given.getLongValue("delayMs"));
        }
    }
}
