import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
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
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.impl.FindBrokerResult;
import org.apache.rocketmq.client.impl.consumer.DefaultMQPushConsumerImpl;
import org.apache.rocketmq.client.impl.factory.MQClientInstance;
import org.apache.rocketmq.client.impl.producer.DefaultMQProducerImpl;
import org.apache.rocketmq.client.impl.producer.TopicPublishInfo;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.RemotingClient;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.remoting.protocol.RemotingSerializable;

/**
 * A real client whose name server is the test: it asks for routes and gets what the line says.
 *
 * <p>Lines are fields with tabs between them, the first is the operation. Classes that have another package in another
 * release are reached by reflection, so that one source serves all releases. An answer that begins with "!" is the
 * exception that the client threw.
 */
public final class Clients {
    private static final int SUCCESS = 0;
    private static final int TOPIC_NOT_EXIST = 17;

    private final Map<String, String> routes = new HashMap<>();
    private final MQClientInstance instance = new MQClientInstance(new ClientConfig(), 0, "oracle");
    private final DefaultMQProducer producer = new DefaultMQProducer("producers");
    private final DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("consumers");
    private final Method publish = staticMethod("topicRouteData2TopicPublishInfo");
    private final Method subscribe = staticMethod("topicRouteData2TopicSubscribeInfo");
    private final Class<?> routeClass = publish.getParameterTypes()[1];

    private Clients() throws Exception {
        Object answers = Proxy.newProxyInstance(Clients.class.getClassLoader(), new Class<?>[] {RemotingClient.class},
            (proxy, method, arguments) -> method.getName().equals("invokeSync")
                ? answer((RemotingCommand) arguments[1]) : null);
        Object api = instance.getMQClientAPIImpl();
        field(api.getClass(), "remotingClient").set(api, answers);
        DefaultMQProducerImpl impl = producer.getDefaultMQProducerImpl();
        field(impl.getClass(), "mQClientFactory").set(impl, instance);
        instance.registerProducer(producer.getProducerGroup(), impl);
        instance.registerConsumer(consumer.getConsumerGroup(), consumer.getDefaultMQPushConsumerImpl());
    }

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
                case "changed":
                    return String.valueOf(changed(route(fields[1]), route(fields[2])));
                case "update":
                    return update(fields[1], fields[2]);
                case "send":
                    return send(fields[1], fields[2], fields[3], Integer.parseInt(fields[4]));
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

    /** A producer and a consumer are told of a route: was it taken, and what do they have now? */
    private String update(String topic, String json) throws Exception {
        consumer.subscribe(topic, "*");
        routes.put(topic, json);
        String taken;
        try {
            taken = String.valueOf(instance.updateTopicRouteInfoFromNameServer(topic));
        } catch (RuntimeException error) {
            taken = "!";
        }
        DefaultMQPushConsumerImpl impl = consumer.getDefaultMQPushConsumerImpl();
        Collection<MessageQueue> read = impl.getRebalanceImpl().getTopicSubscribeInfoTable().get(topic);
        String has = read == null ? "none" : queues(new TreeSet<>(read));
        return taken + "|" + published(infoOf(topic)) + "|" + has;
    }

    /** A producer sends to a topic for the first time: what does it send by? */
    private String send(String topic, String own, String ofDefault, int queueNums) throws Exception {
        routes.put(topic, own);
        routes.put(producer.getCreateTopicKey(), ofDefault);
        producer.setDefaultTopicQueueNums(queueNums);
        DefaultMQProducerImpl impl = producer.getDefaultMQProducerImpl();
        Method find = impl.getClass().getDeclaredMethod("tryToFindTopicPublishInfo", String.class);
        find.setAccessible(true);
        return published((TopicPublishInfo) find.invoke(impl, topic));
    }

    private String find(String members, long id, boolean only) throws Exception {
        HashMap<Long, String> addrs = new HashMap<>();
        Stream.of(members.split(" ")).filter(member -> !member.isEmpty()).map(Long::valueOf)
            .forEach(member -> addrs.put(member, "addr-" + member));
        ((Map<String, Object>) field(instance.getClass(), "brokerAddrTable").get(instance)).put("broker", addrs);
        FindBrokerResult found = instance.findBrokerAddressInSubscribe("broker", id, only);
        return found == null ? "none" : found.getBrokerAddr() + " " + found.isSlave();
    }

    private RemotingCommand answer(RemotingCommand request) throws Exception {
        request.makeCustomHeaderToNet();
        String json = routes.getOrDefault(request.getExtFields().get("topic"), "");
        RemotingCommand response = RemotingCommand.createResponseCommand(json.isEmpty() ? TOPIC_NOT_EXIST : SUCCESS, null);
        response.setBody(json.getBytes(StandardCharsets.UTF_8));
        return response;
    }

    private boolean changed(Object old, Object now) throws ReflectiveOperationException {
        for (Method method : MQClientInstance.class.getDeclaredMethods()) {
            if (method.getName().equals("topicRouteDataIsChange")) { // 4.x
                method.setAccessible(true);
                return (boolean) method.invoke(instance, old, now);
            }
        }
        return (boolean) routeClass.getMethod("topicRouteDataChanged", routeClass).invoke(now, old);
    }

    private Object route(String json) {
        return json.isEmpty() ? null : RemotingSerializable.decode(json.getBytes(StandardCharsets.UTF_8), routeClass);
    }

    private TopicPublishInfo infoOf(String topic) {
        return producer.getDefaultMQProducerImpl().getTopicPublishInfoTable().get(topic);
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
