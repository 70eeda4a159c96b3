package oracle;

import io.netty.channel.ChannelHandlerContext;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.rocketmq.common.MQVersion;
import org.apache.rocketmq.namesrv.routeinfo.Generation;
import org.apache.rocketmq.remoting.netty.NettyRequestProcessor;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;

/** A name server whose events reach it as requests, where there is such a request, through its real processors. */
final class WireNameserver extends Nameserver {

    private static final int GET_ROUTEINFO_BY_TOPIC = 105;
    private static final Map<String, Integer> CODES = Map.ofEntries(
        Map.entry("kv_put", 100), Map.entry("kv_get", 101), Map.entry("kv_delete", 102), Map.entry("register", 103),
        Map.entry("unregister", 104), Map.entry("route", GET_ROUTEINFO_BY_TOPIC), Map.entry("cluster_info", 106),
        Map.entry("wipe_perm", 205), Map.entry("topic_list", 206), Map.entry("delete_topic", 216),
        Map.entry("register_topic", 217), Map.entry("kv_list", 219), Map.entry("topics_by_cluster", 224),
        Map.entry("system_topics", 304), Map.entry("unit_topics", 311), Map.entry("unit_sub_topics", 312),
        Map.entry("unit_sub_ununit_topics", 313), Map.entry("query_dv", 322), Map.entry("add_perm", 327),
        Map.entry("member_group", 901), Map.entry("heartbeat", 904));

    /** Header field of a request by the event's own name for it. */
    private static final Map<String, String> BROKER = Map.of("cluster", "clusterName", "addr", "brokerAddr",
        "name", "brokerName", "id", "brokerId", "ha", "haServerAddr", "timeout", "heartbeatTimeoutMillis",
        "acting", "enableActingMaster", "zone", "__ZONE_NAME");
    private static final Map<String, String> OTHER = Map.of("ns", "namespace", "key", "key", "value", "value",
        "topic", "topic", "cluster", "clusterName", "name", "brokerName");

    private final FakeChannel client = new FakeChannel("client", "127.0.0.1:50000", new ArrayList<>());

    WireNameserver(Observed observed) {
        super(observed);
    }

    @Override
    void apply(Map<String, Object> event, Map<String, Object> res, Map<String, Object> answered) throws Exception {
        String op = (String) event.get("op");
        Integer code = CODES.get(op);
        if (op.equals("request")) {
            answered.put("wire", wire(given(event), senderOf(event)));
        } else if (code == null || code == 904 && !Generation.FIVE) {
            super.apply(event, res, answered);
        } else {
            answered.put("wire", wire(request(op, code, event), senderOf(event)));
            drainUnlessDeferred(event, res);
        }
    }

    /** Returns the channel that the event names, or that of some client. */
    private FakeChannel senderOf(Map<String, Object> event) {
        return event.containsKey("ch") ? channelOf(event) : client;
    }

    /** Returns a request that the event gives field by field: code, version, ext, body (base64 or null). */
    private static RemotingCommand given(Map<String, Object> event) {
        RemotingCommand request = RemotingCommand.createRequestCommand(((Long) event.get("code")).intValue(), null);
        request.setVersion(event.get("version") instanceof Long version ? version.intValue() : MQVersion.CURRENT_VERSION);
        HashMap<String, String> ext = new HashMap<>();
        ((Map<?, ?>) event.getOrDefault("ext", Map.of())).forEach((name, value) -> ext.put((String) name, (String) value));
        request.setExtFields(ext);
        request.setBody(event.get("body") instanceof String body ? Base64.getDecoder().decode(body) : null);
        return request;
    }

    private static RemotingCommand request(String op, int code, Map<String, Object> event) {
        RemotingCommand request = RemotingCommand.createRequestCommand(code, null);
        request.setVersion(MQVersion.CURRENT_VERSION);
        HashMap<String, String> ext = new HashMap<>();
        Map<String, String> names = List.of("register", "unregister", "heartbeat", "query_dv").contains(op) ? BROKER : OTHER;
        names.forEach((name, field) -> {
            if (event.get(name) != null) {
                ext.put(field, String.valueOf(event.get(name)));
            }
        });
        request.setExtFields(ext);
        switch (op) {
            case "route" -> ext.put("acceptStandardJsonOnly", "true");
            case "topics_by_cluster" -> ext.put("cluster", ext.remove("clusterName"));
            case "register" -> {
                ext.put("compressed", "false");
                ext.put("bodyCrc32", "0");
                request.setBody(bytes(Bodies.registration(event)));
            }
            case "query_dv" -> request.setBody(bytes(Bodies.version(event.get("dv"))));
            case "register_topic" -> request.setBody(bytes(Bodies.queues(event)));
            default -> { }
        }
        return request;
    }

    private static byte[] bytes(Object json) {
        return json == null ? null : Bodies.text(json).getBytes(StandardCharsets.UTF_8);
    }

    private Map<String, Object> wire(RemotingCommand request, FakeChannel channel) throws Exception {
        NettyRequestProcessor processor =
            Generation.processor(controller(), request.getCode() == GET_ROUTEINFO_BY_TOPIC);
        Map<String, Object> wire = new LinkedHashMap<>();
        RemotingCommand response;
        try {
            response = processor.processRequest(contextOf(channel), request);
        } catch (Exception e) {
            wire.put("exception", e.getClass().getName());
            wire.put("message", e.getMessage());
            return wire;
        }
        if (response == null) {
            wire.put("response", null);
            return wire;
        }
        Generation.afterResponse(request, response);
        response.makeCustomHeaderToNet();
        wire.put("code", response.getCode());
        wire.put("remark", response.getRemark());
        wire.put("ext", new TreeMap<>(response.getExtFields() == null ? Map.of() : response.getExtFields()));
        wire.put("body", response.getBody() == null ? null : new String(response.getBody(), StandardCharsets.UTF_8));
        return wire;
    }

    private static ChannelHandlerContext contextOf(FakeChannel channel) {
        return (ChannelHandlerContext) Proxy.newProxyInstance(
            ChannelHandlerContext.class.getClassLoader(), new Class<?>[] {ChannelHandlerContext.class},
            (proxy, method, arguments) -> {
                if (method.getName().equals("channel")) {
                    return channel;
                }
                throw new UnsupportedOperationException(method.getName());
            });
    }
}
