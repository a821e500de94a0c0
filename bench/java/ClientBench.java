import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;

/** The Java client doing what client_compare.py does: NAMESRV COUNT SIZE IN_FLIGHT, one JSON line each. */
public final class ClientBench {
    public static void main(String[] args) throws Exception {
        String namesrv = args[0];
        int count = Integer.parseInt(args[1]);
        byte[] body = new byte[Integer.parseInt(args[2])];
        String topic = "JavaBench" + ProcessHandle.current().pid();
        DefaultMQProducer producer = new DefaultMQProducer("java-bench");
        producer.setNamesrvAddr(namesrv);
        producer.setSendMsgTimeout(20000);
        producer.start();
        producer.send(new Message(topic, body));
        for (int round = 0; round < 2; round++) {
            report(round, "send, single", count, body.length, single(producer, topic, body, count, Integer.parseInt(args[3])));
            report(round, "send, batches of 100", count, body.length, batches(producer, topic, body, count));
        }
        producer.shutdown();
        int backlog = 4 * count;
        report(1, "consume, push", backlog, body.length, consume(namesrv, topic, backlog));
        System.exit(0);
    }

    private static void report(int round, String what, int count, int size, double[] spent) {
        if (round > 0) {
            System.out.printf("{\"what\": \"java: %s\", \"count\": %d, \"size\": %d, \"seconds\": %.3f, "
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

    private static double[] consume(String namesrv, String topic, int count) throws Exception {
        CountDownLatch left = new CountDownLatch(count);
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("java-bench-" + System.nanoTime());
        consumer.setNamesrvAddr(namesrv);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setPullBatchSize(1024);
        consumer.setConsumeMessageBatchMaxSize(1024);
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
}
