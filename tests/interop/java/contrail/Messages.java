package contrail;

import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageClientExt;
import org.apache.rocketmq.common.message.MessageExt;

/** Messages from parameters, and messages as rows. */
final class Messages {
    private Messages() {}

    /** The list "messages", or "count" numbered ones of "size" bytes. */
    static List<Message> of(Call call) {
        JSONArray given = call.args.getJSONArray("messages");
        List<Message> messages = new ArrayList<>();
        if (given != null) {
            for (int i = 0; i < given.size(); i++) {
                messages.add(of(given.getJSONObject(i), call.text("topic")));
            }
            return messages;
        }
        for (int i = 0; i < call.number("count", 1); i++) {
            StringBuilder body = new StringBuilder("message " + i);
            while (body.length() < call.number("size", 0)) {
                body.append('.');
            }
            messages.add(new Message(call.text("topic"), body.toString().getBytes(StandardCharsets.UTF_8)));
        }
        return messages;
    }

    private static Message of(JSONObject given, String topic) {
        String base64 = given.getString("base64");
        byte[] body = base64 != null
            ? Base64.getDecoder().decode(base64)
            : given.getString("body").getBytes(StandardCharsets.UTF_8);
        Message message = new Message(given.containsKey("topic") ? given.getString("topic") : topic, body);
        if (given.containsKey("tags")) {
            message.setTags(given.getString("tags"));
        }
        if (given.containsKey("keys")) {
            message.setKeys(given.getString("keys"));
        }
        if (given.containsKey("flag")) {
            message.setFlag(given.getIntValue("flag"));
        }
        if (given.containsKey("delayLevel")) {
            message.setDelayTimeLevel(given.getIntValue("delayLevel"));
        }
        if (given.containsKey("waitStoreOk")) {
            message.setWaitStoreMsgOK(given.getBooleanValue("waitStoreOk"));
        }
        Shim.timer(message, given);
        JSONObject properties = given.getJSONObject("properties");
        if (properties != null) {
            properties.forEach((name, value) -> message.putUserProperty(name, String.valueOf(value)));
        }
        return message;
    }

    /** Print a received message; "message" is what a listener, a poll or a query found. */
    static void row(Call call, MessageExt message) {
        Map<String, String> properties = new TreeMap<>(message.getProperties());
        String offsetId = message instanceof MessageClientExt
            ? ((MessageClientExt) message).getOffsetMsgId() : message.getMsgId();
        call.row("message",
            "topic", message.getTopic(),
            "queueId", message.getQueueId(),
            "queueOffset", message.getQueueOffset(),
            "brokerName", message.getBrokerName(),
            "msgId", message.getMsgId(),
            "offsetMsgId", offsetId,
            "body", new String(message.getBody(), StandardCharsets.UTF_8),
            "base64", Base64.getEncoder().encodeToString(message.getBody()),
            "tags", message.getTags(),
            "keys", message.getKeys(),
            "flag", message.getFlag(),
            "sysFlag", message.getSysFlag(),
            "bodyCRC", message.getBodyCRC(),
            "storeSize", message.getStoreSize(),
            "reconsumeTimes", message.getReconsumeTimes(),
            "commitLogOffset", message.getCommitLogOffset(),
            "preparedTransactionOffset", message.getPreparedTransactionOffset(),
            "bornTimestamp", message.getBornTimestamp(),
            "storeTimestamp", message.getStoreTimestamp(),
            "bornHost", String.valueOf(message.getBornHost()),
            "storeHost", String.valueOf(message.getStoreHost()),
            "properties", properties);
    }
}
