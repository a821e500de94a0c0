import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Collections;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.PushConsumer;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.Message;
import org.apache.rocketmq.client.apis.message.MessageBuilder;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.client.apis.producer.Transaction;
import org.apache.rocketmq.client.apis.producer.TransactionResolution;

/** The Java SDK at work, over TLS: see ../README.md. */
public final class Sdk {
    private static final ClientServiceProvider PROVIDER = ClientServiceProvider.loadService();
    private static ClientConfiguration configuration;
    private static String name;

    public static void main(String[] arguments) throws Exception {
        configuration = ClientConfiguration.newBuilder().setEndpoints(arguments[0]).build();
        name = arguments[1];
        Producer producer = PROVIDER.newProducerBuilder().setClientConfiguration(configuration)
            .setTopics(name + "-normal", name + "-fifo", name + "-delay").build();
        Message first = message("normal", "plain").setTag("blue").setKeys("key-1")
            .addProperty("a", "1").build();
        say("{\"event\":\"sent\",\"topic\":\"normal\",\"id\":\"" + producer.send(first).getMessageId() + "\"}");
        producer.send(message("fifo", "ordered").setMessageGroup("group").build());
        producer.send(message("delay", "late")
            .setDeliveryTimestamp(System.currentTimeMillis() + 3000).build());
        receive("normal", "simple", 1);
        receive("fifo", "ordered", 1);
        receive("delay", "late", 1);
        CountDownLatch heard = new CountDownLatch(1);
        PushConsumer push = PROVIDER.newPushConsumerBuilder().setClientConfiguration(configuration)
            .setConsumerGroup(name + "-push").setSubscriptionExpressions(all("normal"))
            .setMessageListener(found -> {
                say("{\"event\":\"pushed\",\"body\":\"" + text(found.getBody()) + "\"}");
                heard.countDown();
                return ConsumeResult.SUCCESS;
            }).build();
        heard.await(20, TimeUnit.SECONDS);
        push.close();
        producer.close();
        producer = PROVIDER.newProducerBuilder().setClientConfiguration(configuration)
            .setTopics(name + "-tran").setTransactionChecker(found -> {
                say("{\"event\":\"checked\",\"body\":\"" + text(found.getBody()) + "\"}");
                return TransactionResolution.COMMIT;
            }).build();
        Transaction transaction = producer.beginTransaction();
        producer.send(message("tran", "committed").build(), transaction);
        transaction.commit();
        producer.send(message("tran", "orphaned").build(), producer.beginTransaction());
        receive("tran", "tran", 2);
        producer.close();
        say("{\"event\":\"end\"}");
        System.exit(0);
    }

    private static MessageBuilder message(String kind, String body) {
        return PROVIDER.newMessageBuilder().setTopic(name + "-" + kind)
            .setBody(body.getBytes(StandardCharsets.UTF_8));
    }

    private static Map<String, FilterExpression> all(String kind) {
        return Collections.singletonMap(name + "-" + kind, FilterExpression.SUB_ALL);
    }

    private static void receive(String kind, String group, int count) throws Exception {
        SimpleConsumer consumer = PROVIDER.newSimpleConsumerBuilder()
            .setClientConfiguration(configuration).setConsumerGroup(name + "-" + group)
            .setAwaitDuration(Duration.ofSeconds(5)).setSubscriptionExpressions(all(kind)).build();
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(30);
        for (int got = 0; got < count && System.nanoTime() < deadline; ) {
            for (MessageView found : consumer.receive(16, Duration.ofSeconds(20))) {
                String keys = found.getKeys().stream().map(key -> '"' + key + '"')
                    .collect(Collectors.joining(","));
                String properties = found.getProperties().entrySet().stream()
                    .map(one -> '"' + one.getKey() + "\":\"" + one.getValue() + '"')
                    .collect(Collectors.joining(","));
                say("{\"event\":\"received\",\"topic\":\"" + kind + "\",\"body\":\"" + text(found.getBody())
                    + "\",\"tag\":" + found.getTag().map(tag -> '"' + tag + '"').orElse("null")
                    + ",\"keys\":[" + keys + "],\"properties\":{" + properties + "},\"attempt\":"
                    + found.getDeliveryAttempt() + "}");
                consumer.ack(found);
                got++;
            }
        }
        consumer.close();
    }

    private static String text(ByteBuffer body) {
        return StandardCharsets.UTF_8.decode(body).toString();
    }

    private static void say(String line) {
        System.out.println(line);
    }
}
