import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONObject;
import java.lang.reflect.Field;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.stream.Collectors;
import lines.LineServer;
import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.broker.topic.TopicConfigManager;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.remoting.RemotingClient;
import org.apache.rocketmq.remoting.netty.NettyClientConfig;
import org.apache.rocketmq.remoting.netty.NettyServerConfig;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.store.config.MessageStoreConfig;

/**
 * A real broker, never started, whose name servers are the test: what it sends them is the answer.
 *
 * <p>A line has the fields properties, topics, name servers and action, with tabs between them. The answer is what the
 * action returned, by how much the data version's counter grew, and the requests that the first name server got.
 */
public final class Brokers {
    private static final int REGISTER_BROKER = 103;
    private static final int QUERY_DATA_VERSION = 322;

    private final BrokerConfig config = new BrokerConfig();
    private final BrokerController controller;
    private final TopicConfigManager topics;
    private final List<String> sent = Collections.synchronizedList(new ArrayList<>());
    private volatile String[] namesrvs = {};

    private Brokers() throws Exception {
        MessageStoreConfig store = new MessageStoreConfig();
        store.setStorePathRootDir(Files.createTempDirectory("brokers").toString());
        config.setBrokerName("broker-a");
        controller = new BrokerController(config, new NettyServerConfig(), new NettyClientConfig(), store);
        topics = controller.getTopicConfigManager();
        Object client = Proxy.newProxyInstance(Brokers.class.getClassLoader(), new Class<?>[] {RemotingClient.class},
            (proxy, method, arguments) -> {
                switch (method.getName()) {
                    case "getNameServerAddressList":
                    case "getAvailableNameSrvList":
                        List<String> addrs = new ArrayList<>();
                        for (int i = 0; i < namesrvs.length; i++) {
                            addrs.add(String.valueOf(i));
                        }
                        return addrs;
                    case "invokeSync":
                        return answer(Integer.parseInt((String) arguments[0]), (RemotingCommand) arguments[1], false);
                    case "invokeOneway":
                        return answer(Integer.parseInt((String) arguments[0]), (RemotingCommand) arguments[1], true);
                    default:
                        return null;
                }
            });
        Field field = controller.getBrokerOuterAPI().getClass().getDeclaredField("remotingClient");
        field.setAccessible(true);
        field.set(controller.getBrokerOuterAPI(), client);
    }

    public static void main(String[] arguments) throws Exception {
        LineServer.serve(() -> new Brokers()::answer);
    }

    private String answer(String line) throws Exception {
        String[] fields = line.split("\t", -1);
        for (String property : fields[0].split(" ")) {
            set(property.split("="));
        }
        topics.getTopicConfigTable().clear();
        for (String text : fields[1].split(" ")) {
            if (!text.isEmpty()) {
                TopicConfig topic = parsed(text.split(","));
                topics.getTopicConfigTable().put(topic.getTopicName(), topic);
            }
        }
        namesrvs = fields[2].isEmpty() ? new String[] {} : fields[2].split(" ");
        sent.clear();
        long before = topics.getDataVersion().getCounter().get();
        String result = acted(fields[3].split(" "));
        long bumps = topics.getDataVersion().getCounter().get() - before;
        return result + "\t" + bumps + "\t" + String.join("\t", sent);
    }

    private String acted(String[] action) {
        switch (action[0]) {
            case "send":
                return text(topics.createTopicInSendMessageMethod(action[1], action[2], "client",
                    Integer.parseInt(action[3]), Integer.parseInt(action[4])));
            case "back":
                return text(topics.createTopicInSendMessageBackMethod(action[1], Integer.parseInt(action[2]), 6,
                    Integer.parseInt(action[3])));
            case "unit":
                topics.updateTopicUnitFlag(action[1], true);
                return text(topics.selectTopicConfig(action[1]));
            case "delete":
                topics.deleteTopicConfig(action[1]);
                return "none";
            case "increment":
                controller.registerIncrementBrokerData(topics.selectTopicConfig(action[1]), topics.getDataVersion());
                return "none";
            case "register":
                controller.registerBrokerAll(true, false, Boolean.parseBoolean(action[1]));
                return "none";
            default:
                throw new IllegalArgumentException(action[0]);
        }
    }

    /** What a name server says; the first one writes down what it got. */
    private RemotingCommand answer(int number, RemotingCommand request, boolean oneWay) throws Exception {
        if (request.getCode() == QUERY_DATA_VERSION) {
            return version(namesrvs[number]);
        }
        if (number == 0) {
            JSONObject body = JSON.parseObject(new String(request.getBody(), StandardCharsets.UTF_8));
            List<String> texts = new ArrayList<>();
            if (request.getCode() == REGISTER_BROKER) {
                JSONObject wrapper = body.getJSONObject("topicConfigSerializeWrapper");
                for (Object topic : wrapper.getJSONObject("topicConfigTable").values()) {
                    texts.add(text((JSONObject) topic, ((JSONObject) topic).getString("topicName")));
                }
            } else {
                request.makeCustomHeaderToNet();
                String topic = request.getExtFields().get("topic");
                body.getJSONArray("queueDatas").forEach(data -> texts.add(text((JSONObject) data, topic)));
            }
            Collections.sort(texts);
            sent.add(request.getCode() + (oneWay ? " one-way " : " ") + String.join(" ", texts));
        }
        return oneWay ? null : RemotingCommand.createResponseCommand(0, null);
    }

    private RemotingCommand version(String answer) {
        if (answer.equals("silent")) {
            throw new IllegalStateException("no answer");
        }
        RemotingCommand response = RemotingCommand.createResponseCommand(answer.equals("error") ? 1 : 0, null);
        if (!answer.equals("unsaid")) {
            response.addExtField("changed", String.valueOf(answer.equals("differs") || answer.equals("unknown")));
        }
        JSONObject version = JSON.parseObject(topics.getDataVersion().toJson());
        if (answer.equals("differs") || answer.equals("newer")) {
            version.put("counter", version.getLong("counter") + 1);
        }
        if (answer.equals("state")) {
            version.put("stateVersion", 1);
        }
        if (!answer.equals("unknown") && !answer.equals("bare")) {
            response.setBody(version.toJSONString().getBytes(StandardCharsets.UTF_8));
        }
        return response;
    }

    /** Sets a property of the configuration; one that this release does not have is left out. */
    private void set(String[] property) throws ReflectiveOperationException {
        for (Field field : BrokerConfig.class.getDeclaredFields()) {
            if (field.getName().equals(property[0])) {
                field.setAccessible(true);
                field.set(config, field.getType() == boolean.class
                    ? (Object) Boolean.valueOf(property[1]) : (Object) Integer.valueOf(property[1]));
            }
        }
    }

    private static TopicConfig parsed(String[] parts) {
        TopicConfig topic = new TopicConfig(
            parts[0], Integer.parseInt(parts[1]), Integer.parseInt(parts[2]), Integer.parseInt(parts[3]));
        topic.setTopicSysFlag(Integer.parseInt(parts[4]));
        return topic;
    }

    private static String text(TopicConfig topic) {
        return topic == null ? "none" : text(JSON.parseObject(JSON.toJSONString(topic)), topic.getTopicName());
    }

    private static String text(JSONObject topic, String name) {
        return name + "," + Arrays.stream(new String[] {"readQueueNums", "writeQueueNums", "perm", "topicSysFlag"})
            .map(topic::getString).collect(Collectors.joining(","));
    }
}
