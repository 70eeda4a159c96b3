import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.stream.Stream;
import lines.LineServer;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.impl.FindBrokerResult;
import org.apache.rocketmq.client.impl.factory.MQClientInstance;
import org.apache.rocketmq.client.impl.producer.TopicPublishInfo;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.protocol.RemotingSerializable;

/**
 * A real client that gets the route that the line says.
 *
 * <p>Lines are fields with tabs between them, the first is the operation. Classes that have another package in another
 * release are reached by reflection, so that one source serves all releases. An answer that begins with "!" is the
 * exception that the client threw.
 */
public final class Clients {
    private final MQClientInstance instance = new MQClientInstance(new ClientConfig(), 0, "oracle");
    private final Method publish = staticMethod("topicRouteData2TopicPublishInfo");
    private final Method subscribe = staticMethod("topicRouteData2TopicSubscribeInfo");
    private final Class<?> routeClass = publish.getParameterTypes()[1];

    public static void main(String[] arguments) throws Exception {
        LineServer.serve(() -> new Clients()::answer);
    }

    private String answer(String line) throws Exception {
        String[] fields = line.split("\t", -1);
        try {
            switch (fields[0]) {
                case "publish":
                    TopicPublishInfo info = (TopicPublishInfo) publish.invoke(null, fields[1], route(fields[2]));
                    info.setHaveTopicRouterInfo(true); // as the caller does
                    return published(info);
                case "subscribe":
                    return queues(new TreeSet<>((Collection<MessageQueue>) subscribe.invoke(null, fields[1], route(fields[2]))));
                case "find":
                    return find(fields[1], Long.parseLong(fields[2]), Boolean.parseBoolean(fields[3]));
                default:
                    throw new IllegalArgumentException(line);
            }
        } catch (ReflectiveOperationException | RuntimeException error) {
            Throwable cause = error.getCause() == null ? error : error.getCause();
            return "!" + cause.getClass().getSimpleName();
        }
    }

    private String find(String members, long id, boolean only) throws Exception {
        HashMap<Long, String> addrs = new HashMap<>();
        Stream.of(members.split(" ")).filter(member -> !member.isEmpty()).map(Long::valueOf)
            .forEach(member -> addrs.put(member, "addr-" + member));
        ((Map<String, Object>) field(instance.getClass(), "brokerAddrTable").get(instance)).put("broker", addrs);
        FindBrokerResult found = instance.findBrokerAddressInSubscribe("broker", id, only);
        return found == null ? "none" : found.getBrokerAddr() + " " + found.isSlave();
    }

    private Object route(String json) {
        return json.isEmpty() ? null : RemotingSerializable.decode(json.getBytes(StandardCharsets.UTF_8), routeClass);
    }

    private static String published(TopicPublishInfo info) {
        if (info == null || !info.isHaveTopicRouterInfo() && !info.ok()) {
            return "none";
        }
        return info.isOrderTopic() + "\t" + queues(info.getMessageQueueList());
    }

    private static String queues(Collection<MessageQueue> queues) {
        List<String> texts = new ArrayList<>();
        queues.forEach(queue -> texts.add(queue.getBrokerName() + "\t" + queue.getQueueId()));
        return String.join("\t", texts);
    }

    private static Method staticMethod(String name) {
        return Stream.of(MQClientInstance.class.getMethods()).filter(method -> method.getName().equals(name)).findFirst().get();
    }

    private static Field field(Class<?> owner, String name) throws NoSuchFieldException {
        Field field = owner.getDeclaredField(name);
        field.setAccessible(true);
        return field;
    }
}
