package contrail;

import com.alibaba.fastjson.JSONArray;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.producer.TransactionSendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Send messages. Parameter mode: sync, async, oneway, batch, ordered (queueId, or shardingKeys by
 * message), transaction (states and checkStates by message: COMMIT_MESSAGE, ROLLBACK_MESSAGE, UNKNOW;
 * lingerMs to answer checks).
 */
final class Produce {
    private Produce() {}

    static void run(Call call) throws Exception {
        String mode = call.text("mode", "sync");
        DefaultMQProducer producer = "transaction".equals(mode) ? transactional(call) : plain(call);
        call.configure(producer);
        producer.setSendMsgTimeout(call.number("timeoutMs", 5000));
        producer.setCompressMsgBodyOverHowmuch(call.number("compressOver", 4096));
        producer.setMaxMessageSize(call.number("maxMessageSize", 4 * 1024 * 1024));
        producer.setRetryTimesWhenSendFailed(call.number("retries", 2));
        producer.setRetryTimesWhenSendAsyncFailed(call.number("retries", 2));
        producer.setDefaultTopicQueueNums(call.number("defaultTopicQueueNums", 4));
        producer.start();
        call.row("ready");
        try {
            send(call, producer, mode);
            call.awaitStop(call.number("lingerMs", 0));
        } finally {
            producer.shutdown();
        }
    }

    static synchronized DefaultMQProducer plain(Call call) {
        System.setProperty("rocketmq.message.compressType", call.text("compressType", "ZLIB"));
        return new DefaultMQProducer(
            call.text("group", "driver-producer"), call.credentials(), call.flag("trace"), null);
    }

    private static synchronized TransactionMQProducer transactional(Call call) {
        System.setProperty("rocketmq.message.compressType", call.text("compressType", "ZLIB"));
        TransactionMQProducer producer =
            new TransactionMQProducer(call.text("group", "driver-producer"), call.credentials());
        producer.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object index) {
                return state(call, "states", (Integer) index);
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                int index = Integer.parseInt(message.getUserProperty("driverIndex"));
                LocalTransactionState state = state(call, "checkStates", index);
                call.row("checked", "index", index, "state", state.name(),
                    "transactionId", message.getTransactionId(), "msgId", message.getMsgId());
                return state;
            }
        });
        return producer;
    }

    private static LocalTransactionState state(Call call, String name, int index) {
        JSONArray states = call.args.getJSONArray(name);
        return states == null || index >= states.size()
            ? LocalTransactionState.COMMIT_MESSAGE
            : LocalTransactionState.valueOf(states.getString(index));
    }

    private static void send(Call call, DefaultMQProducer producer, String mode) throws Exception {
        List<Message> messages = Messages.of(call);
        if ("batch".equals(mode)) {
            try {
                sent(call, 0, producer.send(messages));
            } catch (Exception error) {
                call.failed(error, "index", 0);
            }
            return;
        }
        CountDownLatch answers = new CountDownLatch("async".equals(mode) ? messages.size() : 0);
        for (int i = 0; i < messages.size() && !call.isStopped(); i++) {
            try {
                sendOne(call, producer, mode, messages.get(i), i, answers);
            } catch (Exception error) {
                call.failed(error, "index", i);
                answers.countDown();
            }
            if (call.number("pauseMs", 0) > 0) {
                call.awaitStop(call.number("pauseMs", 0));
            }
        }
        if (!answers.await(call.number("timeoutMs", 5000) + 5000L, TimeUnit.MILLISECONDS)) {
            throw new IllegalStateException(answers.getCount() + " callbacks have not come");
        }
    }

    private static void sendOne(Call call, DefaultMQProducer producer, String mode, Message message, int index,
        CountDownLatch answers) throws Exception {
        switch (mode) {
            case "sync":
                sent(call, index, producer.send(message));
                break;
            case "oneway":
                producer.sendOneway(message);
                call.row("sent", "index", index);
                break;
            case "async":
                producer.send(message, new SendCallback() {
                    @Override
                    public void onSuccess(SendResult result) {
                        sent(call, index, result);
                        answers.countDown();
                    }

                    @Override
                    public void onException(Throwable error) {
                        call.failed(error, "index", index);
                        answers.countDown();
                    }
                });
                break;
            case "ordered":
                sent(call, index, producer.send(message, Produce::choose, chosen(call, index)));
                break;
            case "transaction":
                message.putUserProperty("driverIndex", String.valueOf(index));
                sent(call, index, producer.sendMessageInTransaction(message, index));
                break;
            default:
                throw new IllegalArgumentException("no mode " + mode);
        }
    }

    private static MessageQueue choose(List<MessageQueue> queues, Message message, Object key) {
        if (key instanceof Integer) {
            return queues.stream().filter(queue -> queue.getQueueId() == (Integer) key).findFirst().orElseThrow();
        }
        return queues.get(Math.floorMod(key.hashCode(), queues.size()));
    }

    private static Object chosen(Call call, int index) {
        JSONArray keys = call.args.getJSONArray("shardingKeys");
        return keys != null ? keys.getString(index) : Integer.valueOf(call.number("queueId", 0));
    }

    private static void sent(Call call, int index, SendResult result) {
        LocalTransactionState state = result instanceof TransactionSendResult
            ? ((TransactionSendResult) result).getLocalTransactionState() : null;
        call.row("sent",
            "index", index,
            "status", result.getSendStatus().name(),
            "msgId", result.getMsgId(),
            "offsetMsgId", result.getOffsetMsgId(),
            "queueOffset", result.getQueueOffset(),
            "brokerName", result.getMessageQueue().getBrokerName(),
            "queueId", result.getMessageQueue().getQueueId(),
            "topic", result.getMessageQueue().getTopic(),
            "transactionId", result.getTransactionId(),
            "regionId", result.getRegionId(),
            "localState", state == null ? null : state.name());
    }
}
