package contrail;

import com.alibaba.fastjson.JSON;
import java.util.Collections;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/** What tests need of the admin client; do = createTopic, deleteTopic, route, cluster, topicStats, consumeStats. */
final class Admin {
    private Admin() {}

    static void run(Call call) throws Exception {
        DefaultMQAdminExt admin = new DefaultMQAdminExt(call.credentials(), call.number("timeoutMs", 10000));
        call.configure(admin);
        admin.start();
        try {
            Object result = run(call, admin);
            call.row("result", "result", result == null ? null : JSON.toJSON(result));
        } finally {
            admin.shutdown();
        }
    }

    private static Object run(Call call, DefaultMQAdminExt admin) throws Exception {
        switch (call.text("do")) {
            case "createTopic":
                int queues = call.number("queues", 4);
                TopicConfig config = new TopicConfig(call.text("topic"), queues, queues, call.number("perm", 6));
                config.setOrder(call.flag("order"));
                admin.createAndUpdateTopicConfig(call.text("broker"), config);
                return null;
            case "deleteTopic":
                admin.deleteTopicInBroker(Collections.singleton(call.text("broker")), call.text("topic"));
                admin.deleteTopicInNameServer(Collections.singleton(call.text("namesrv")),
                    call.text("cluster", "DefaultCluster"), call.text("topic"));
                return null;
            case "route":
                return text(admin.examineTopicRouteInfo(call.text("topic")));
            case "cluster":
                return text(admin.examineBrokerClusterInfo());
            case "topicStats":
                return admin.examineTopicStats(call.text("topic")).getOffsetTable().entrySet().stream()
                    .map(entry -> new long[] {
                        entry.getKey().getQueueId(), entry.getValue().getMinOffset(), entry.getValue().getMaxOffset()})
                    .toArray();
            case "consumeStats":
                return admin.examineConsumeStats(call.text("group")).getOffsetTable().entrySet().stream()
                    .map(entry -> new Object[] {
                        entry.getKey().getTopic(), entry.getKey().getQueueId(),
                        entry.getValue().getBrokerOffset(), entry.getValue().getConsumerOffset()})
                    .toArray();
            default:
                throw new IllegalArgumentException("admin cannot do " + call.text("do"));
        }
    }

    private static Object text(Object body) {
        return JSON.parse(JSON.toJSONString(body));
    }
}
