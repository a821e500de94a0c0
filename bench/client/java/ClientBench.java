import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;

/**
 * The Java client doing what client_compare.py does: NAMESRV COUNT SIZE IN_FLIGHT TOPIC BACKLOG, one JSON line each.
 * Sends go to a topic of their own; the backlog that is consumed is the one the other clients consume.
 */
public final class ClientBench {
    public static void main(String[] args) throws Exception {
        String namesrv = args[0];
        int count = Integer.parseInt(args[1]);
        byte[] body = new byte[Integer.parseInt(args[2])];
        int inFlight = Integer.parseInt(args[3]);
        int backlog = Integer.parseInt(args[5]);
        String topic = "Java" + args[4];
        DefaultMQProducer producer = new DefaultMQProducer("java-bench");
        producer.setNamesrvAddr(namesrv);
        producer.setSendMsgTimeout(20000);
        producer.start();
        producer.send(new Message(topic, body));
        for (int round = 0; round < 2; round++) {
            report(round, "send, single", count, body.length, single(producer, topic, body, count, inFlight));
            report(round, "send, batches of 100", count / 100 * 100, body.length, batches(producer, topic, body, count));
        }
        producer.shutdown();
        for (int round = 0; round < 2; round++) {
            report(round, "consume, push handler, one by one", backlog, body.length, consume(namesrv, args[4], backlog, 1));
            report(round, "consume, push, lists of up to 1024", backlog, body.length, consume(namesrv, args[4], backlog, 1024));
            report(round, "consume, lite pull", backlog, body.length, lite(namesrv, args[4], backlog));
        }
        System.exit(0);
    }

    private static void report(int round, String what, int count, int size, double[] spent) {
        if (round > 0) {
            System.out.printf("{\"client\": \"Java\", \"what\": \"%s\", \"count\": %d, \"size\": %d, \"seconds\": %.3f, "
                + "\"per_second\": %d, \"cpu_us_per_message\": %.2f}%n",
                what, count, size, spent[0], (long) (count / spent[0]), spent[1] / count * 1e6);
        }
    }

    private static double[] now() {
        var os = (com.sun.management.OperatingSystemMXBean) java.lang.management.ManagementFactory.getOperatingSystemMXBean();
        return new double[] {System.nanoTime() / 1e9, os.getProcessCpuTime() / 1e9};
    }

    private static double[] since(double[] begun) {
        double[] end = now();
        return new double[] {end[0] - begun[0], end[1] - begun[1]};
    }

    private static double[] single(DefaultMQProducer producer, String topic, byte[] body, int count, int inFlight)
        throws Exception {
        Semaphore room = new Semaphore(inFlight);
        CountDownLatch left = new CountDownLatch(count);
        double[] begun = now();
        for (int i = 0; i < count; i++) {
            room.acquire();
            producer.send(new Message(topic, body), new SendCallback() {
                @Override
                public void onSuccess(SendResult result) {
                    room.release();
                    left.countDown();
                }

                @Override
                public void onException(Throwable error) {
                    onSuccess(null);
                }
            });
        }
        left.await();
        return since(begun);
    }

    private static double[] batches(DefaultMQProducer producer, String topic, byte[] body, int count) throws Exception {
        Thread[] threads = new Thread[16];
        double[] begun = now();
        for (int t = 0; t < threads.length; t++) {
            int share = count / 100 / threads.length + (t < count / 100 % threads.length ? 1 : 0);
            threads[t] = new Thread(() -> {
                try {
                    for (int i = 0; i < share; i++) {
                        List<Message> messages = new ArrayList<>();
                        for (int j = 0; j < 100; j++) {
                            messages.add(new Message(topic, body));
                        }
                        producer.send(messages);
                    }
                } catch (Exception error) {
                    throw new IllegalStateException(error);
                }
            });
            threads[t].start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
        return since(begun);
    }

    private static double[] consume(String namesrv, String topic, int count, int batch) throws Exception {
        CountDownLatch left = new CountDownLatch(count);
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("java-bench-" + System.nanoTime());
        consumer.setNamesrvAddr(namesrv);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setPullBatchSize(1024);
        consumer.setConsumeMessageBatchMaxSize(batch);
        consumer.setPullThresholdForQueue(20000);
        consumer.setConsumeConcurrentlyMaxSpan(50000);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(message -> left.countDown());
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        double[] begun = now();
        consumer.start();
        left.await();
        double[] spent = since(begun);
        consumer.shutdown();
        return spent;
    }

    private static double[] lite(String namesrv, String topic, int count) throws Exception {
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer("java-lite-" + System.nanoTime());
        consumer.setNamesrvAddr(namesrv);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setPullBatchSize(1024);
        consumer.setPullThresholdForQueue(20000);
        consumer.setPullThresholdForAll(80000);
        consumer.setConsumeMaxSpan(50000);
        consumer.subscribe(topic, "*");
        int seen = 0;
        double[] begun = now();
        consumer.start();
        while (seen < count) {
            seen += consumer.poll(10000).size();
        }
        double[] spent = since(begun);
        consumer.shutdown();
        return spent;
    }
}
