package contrail;

import com.alibaba.fastjson.JSONObject;
import io.netty.channel.ChannelHandlerContext;
import java.util.Base64;
import java.util.HashMap;
import java.util.concurrent.Executors;
import org.apache.rocketmq.remoting.netty.NettyClientConfig;
import org.apache.rocketmq.remoting.netty.NettyRemotingClient;
import org.apache.rocketmq.remoting.netty.NettyRemotingServer;
import org.apache.rocketmq.remoting.netty.NettyRequestProcessor;
import org.apache.rocketmq.remoting.netty.NettyServerConfig;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;

/** The remoting layer alone: single requests to any server, and a server that sends back what it gets. */
final class Remoting {
    private static final int ECHO_FAILURE_CODE = 9001;

    private Remoting() {}

    /** Send requests to address: [{code, fields, base64, remark}]; oneway: true waits for nothing. */
    static void call(Call call) throws Exception {
        NettyRemotingClient client = new NettyRemotingClient(new NettyClientConfig());
        client.start();
        try {
            var requests = call.args.getJSONArray("requests");
            for (int i = 0; i < requests.size(); i++) {
                RemotingCommand request = request(requests.getJSONObject(i));
                try {
                    if (call.flag("oneway")) {
                        client.invokeOneway(call.text("address"), request, call.number("timeoutMs", 5000));
                        call.row("oneway", "index", i, "opaque", request.getOpaque());
                    } else {
                        row(call, "response", i,
                            client.invokeSync(call.text("address"), request, call.number("timeoutMs", 5000)));
                    }
                } catch (Exception error) {
                    call.failed(error, "index", i);
                }
            }
            call.awaitStop(call.number("lingerMs", 0));
        } finally {
            client.shutdown();
        }
    }

    /** Answer every request with its own fields and body; code 9001 throws. Prints the port, then each request. */
    static void serve(Call call) throws Exception {
        NettyServerConfig config = new NettyServerConfig();
        config.setListenPort(0);
        NettyRemotingServer server = new NettyRemotingServer(config);
        server.registerDefaultProcessor(new NettyRequestProcessor() {
            @Override
            public RemotingCommand processRequest(ChannelHandlerContext context, RemotingCommand request) {
                row(call, "request", 0, request);
                if (request.getCode() == ECHO_FAILURE_CODE) {
                    throw new IllegalStateException("asked to fail");
                }
                RemotingCommand response = RemotingCommand.createResponseCommand(0, request.getRemark());
                response.setExtFields(request.getExtFields());
                response.setBody(request.getBody());
                return response;
            }

            @Override
            public boolean rejectRequest() {
                return false;
            }
        }, Executors.newFixedThreadPool(2, task -> {
            Thread thread = new Thread(task, "echo");
            thread.setDaemon(true);
            return thread;
        }));
        server.start();
        call.row("ready", "port", server.localListenPort());
        try {
            call.awaitStop(call.number("timeoutMs", 60000));
        } finally {
            server.shutdown();
        }
    }

    private static RemotingCommand request(JSONObject given) {
        RemotingCommand request = RemotingCommand.createRequestCommand(given.getIntValue("code"), null);
        JSONObject fields = given.getJSONObject("fields");
        HashMap<String, String> ext = new HashMap<>();
        if (fields != null) {
            fields.forEach((name, value) -> ext.put(name, String.valueOf(value)));
        }
        request.setExtFields(ext);
        request.setRemark(given.getString("remark"));
        if (given.containsKey("base64")) {
            request.setBody(Base64.getDecoder().decode(given.getString("base64")));
        }
        return request;
    }

    private static void row(Call call, String event, int index, RemotingCommand command) {
        byte[] body = command.getBody();
        call.row(event,
            "index", index,
            "code", command.getCode(),
            "opaque", command.getOpaque(),
            "oneway", command.isOnewayRPC(),
            "remark", command.getRemark(),
            "version", command.getVersion(),
            "language", command.getLanguage().name(),
            "serialization", command.getSerializeTypeCurrentRPC().name(),
            "fields", command.getExtFields(),
            "base64", body == null ? null : Base64.getEncoder().encodeToString(body));
    }
}
