package contrail;

import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONObject;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/**
 * The Java client by remote control: one JSON line in for each command, JSON lines out.
 *
 * <pre>
 * {"id": 1, "command": "produce", "namesrv": "...", "topic": "T", "messages": [{"body": "x"}]}
 * {"id": 1, "event": "sent", "status": "SEND_OK", ...}
 * {"id": 1, "event": "done"}
 * </pre>
 *
 * Commands run side by side, each in its thread. {"id": 1, "stop": true} ends one that waits.
 * The program ends with its input.
 */
public final class Driver {
    interface Command {
        void run(Call call) throws Exception;
    }

    private static final Map<String, Command> COMMANDS = new HashMap<>();

    static {
        COMMANDS.put("produce", Produce::run);
        COMMANDS.put("consume", Consume::run);
        COMMANDS.put("pull", Pull::pull);
        COMMANDS.put("litepull", Pull::litePull);
        COMMANDS.put("query", Query::run);
        COMMANDS.put("request", RequestReply::request);
        COMMANDS.put("reply", RequestReply::reply);
        COMMANDS.put("admin", Admin::run);
        COMMANDS.put("remoting-call", Remoting::call);
        COMMANDS.put("remoting-serve", Remoting::serve);
    }

    private Driver() {}

    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        System.setOut(System.err);
        Map<Long, Call> calls = new ConcurrentHashMap<>();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JSONObject parameters = JSON.parseObject(line);
            long id = parameters.getLongValue("id");
            if (parameters.getBooleanValue("stop")) {
                Call call = calls.get(id);
                if (call != null) {
                    call.stop();
                }
                continue;
            }
            Call call = new Call(parameters, out);
            calls.put(id, call);
            Thread thread = new Thread(() -> {
                run(call, parameters.getString("command"));
                calls.remove(id);
            }, "command-" + id);
            thread.setDaemon(true);
            thread.start();
        }
        calls.values().forEach(Call::stop);
        Runtime.getRuntime().halt(0);
    }

    private static void run(Call call, String name) {
        Command command = COMMANDS.get(name);
        try {
            if (command == null) {
                throw new IllegalArgumentException("no command " + name);
            }
            command.run(call);
        } catch (Throwable error) {
            error.printStackTrace();
            call.failed(error);
        }
        call.row("done");
    }
}
