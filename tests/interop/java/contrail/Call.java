package contrail;

import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONObject;
import com.alibaba.fastjson.serializer.SerializerFeature;
import java.io.PrintStream;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.remoting.RPCHook;

/** One command under way: its parameters, the rows it prints, and whether it shall stop. */
final class Call {
    private static final AtomicLong INSTANCES = new AtomicLong();

    final JSONObject args;
    private final long id;
    private final PrintStream out;
    private final CountDownLatch stop = new CountDownLatch(1);

    Call(JSONObject line, PrintStream out) {
        this.args = line;
        this.id = line.getLongValue("id");
        this.out = out;
    }

    /** Print one row: an event and its fields, name and value in turn. */
    void row(String event, Object... pairs) {
        JSONObject row = new JSONObject(true);
        row.put("id", id);
        row.put("event", event);
        for (int i = 0; i < pairs.length; i += 2) {
            row.put((String) pairs[i], pairs[i + 1]);
        }
        String text = JSON.toJSONString(row,
            SerializerFeature.WriteMapNullValue, SerializerFeature.DisableCircularReferenceDetect);
        synchronized (out) {
            out.println(text);
            out.flush();
        }
    }

    void failed(Throwable error, Object... pairs) {
        Object[] all = new Object[pairs.length + 8];
        System.arraycopy(pairs, 0, all, 0, pairs.length);
        int code = 0;
        if (error instanceof MQBrokerException) {
            code = ((MQBrokerException) error).getResponseCode();
        } else if (error instanceof MQClientException) {
            code = ((MQClientException) error).getResponseCode();
        }
        all[pairs.length] = "error";
        all[pairs.length + 1] = error.getClass().getSimpleName();
        all[pairs.length + 2] = "code";
        all[pairs.length + 3] = code;
        all[pairs.length + 4] = "message";
        all[pairs.length + 5] = String.valueOf(error.getMessage());
        Throwable root = error;
        while (root.getCause() != null) {
            root = root.getCause();
        }
        all[pairs.length + 6] = "cause";
        all[pairs.length + 7] = String.valueOf(root.getMessage());
        row("failed", all);
    }

    void stop() {
        stop.countDown();
    }

    boolean isStopped() {
        return stop.getCount() == 0;
    }

    /** Wait until somebody stops this command; false when the time is over first. */
    boolean awaitStop(long ms) throws InterruptedException {
        return stop.await(ms, TimeUnit.MILLISECONDS);
    }

    String text(String name) {
        String value = args.getString(name);
        if (value == null) {
            throw new IllegalArgumentException("parameter " + name + " is missing");
        }
        return value;
    }

    String text(String name, String otherwise) {
        String value = args.getString(name);
        return value == null ? otherwise : value;
    }

    int number(String name, int otherwise) {
        Integer value = args.getInteger(name);
        return value == null ? otherwise : value;
    }

    boolean flag(String name) {
        return args.getBooleanValue(name);
    }

    /** Signs requests if accessKey and secretKey are given; otherwise null. */
    RPCHook credentials() {
        String key = args.getString("accessKey");
        return key == null ? null : new AclClientRPCHook(new SessionCredentials(key, text("secretKey")));
    }

    /** Each command is a client of its own, also within one virtual machine. */
    void configure(ClientConfig client) {
        client.setNamesrvAddr(text("namesrv"));
        client.setInstanceName(text("instance", "driver-" + INSTANCES.incrementAndGet()));
        client.setUseTLS(flag("tls"));
        client.setVipChannelEnabled(flag("vip"));
        client.setPollNameServerInterval(number("pollNameServerMs", 1000));
        client.setHeartbeatBrokerInterval(number("heartbeatMs", 30000));
        client.setPersistConsumerOffsetInterval(number("persistMs", 5000));
        if (args.containsKey("unit")) {
            client.setUnitName(text("unit"));
        }
    }
}
