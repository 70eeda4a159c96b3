import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.management.ManagementFactory;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicLong;
import lines.LineServer;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;

/**
 * Decodes what it is sent with the real classes of the RocketMQ release on the class path.
 *
 * <p>The questions, and an answer in JSON (ASCII) for each:
 *
 * <pre>
 *   frame BASE64                  the bytes behind a frame's length field
 *   register VERSION ZIP BASE64   the body of a registration; ZIP is true or false
 *   version BASE64                the body of a data version query
 *   queues BASE64                 the body of a topic registration
 * </pre>
 *
 * An answer is {"value": ...}, or {"refused": "name of the exception"}, "never ends" for want of one.
 */
public final class DecodeOracle {
    private static final String[] BODIES = {
        "org.apache.rocketmq.remoting.protocol.body.", "org.apache.rocketmq.common.protocol.body."};
    private static final String[] DATA_VERSIONS = {
        "org.apache.rocketmq.remoting.protocol.", "org.apache.rocketmq.common."};
    private static final String[] ROUTES = {
        "org.apache.rocketmq.remoting.protocol.route.", "org.apache.rocketmq.common.protocol.route."};

    private static final long PATIENCE_NANOS = 5_000_000_000L;

    private static volatile Thread workerThread;
    private static ExecutorService worker = newWorker();

    private DecodeOracle() {
    }

    public static void main(String[] args) throws Exception {
        System.setErr(new PrintStream(OutputStream.nullOutputStream())); // the classes under test log what they refuse
        LineServer.serve(() -> DecodeOracle::respond);
    }

    /** Some texts send a reader round in circles for ever; by its own CPU time, however busy the machine is. */
    private static String respond(String line) throws Exception {
        Future<String> task = worker.submit(() -> verdict(line));
        long end = cpuNanos(workerThread) + PATIENCE_NANOS;
        while (true) {
            try {
                return task.get(1, TimeUnit.SECONDS);
            } catch (TimeoutException error) {
                if (cpuNanos(workerThread) > end) {
                    stop(workerThread);
                    worker = newWorker();
                    return "{\"refused\":\"never ends\"}";
                }
            }
        }
    }

    private static long cpuNanos(Thread thread) {
        return ManagementFactory.getThreadMXBean().getThreadCpuTime(thread.getId());
    }

    private static ExecutorService newWorker() {
        return Executors.newSingleThreadExecutor(task -> {
            workerThread = new Thread(task, "decoder");
            workerThread.setDaemon(true);
            return workerThread;
        });
    }

    /** Nothing else ends a thread that runs in circles; where Java has no such thing any more it goes on running. */
    @SuppressWarnings({"deprecation", "removal"})
    private static void stop(Thread thread) {
        try {
            thread.stop();
        } catch (UnsupportedOperationException error) {
            // from Java 20 on
        }
    }

    private static String verdict(String line) {
        StringBuilder answer = new StringBuilder("{\"value\":");
        try {
            write(answer, answer(line.split(" ", -1)));
        } catch (Throwable error) { // hostile input may well exhaust the stack or the heap
            Throwable cause = error instanceof InvocationTargetException ? error.getCause() : error;
            answer.setLength(0);
            write(answer.append("{\"refused\":"), cause.getClass().getSimpleName());
        }
        return answer.append('}').toString();
    }

    private static Object answer(String[] words) throws Exception {
        byte[] data = Base64.getDecoder().decode(words[words.length - 1]);
        switch (words[0]) {
            case "frame":
                return frame(data);
            case "register":
                return registration(Integer.parseInt(words[1]), Boolean.parseBoolean(words[2]), data);
            case "version":
                return dataVersion(decode(found(DATA_VERSIONS, "DataVersion"), data));
            case "queues":
                Object route = decode(found(ROUTES, "TopicRouteData"), data);
                return route == null ? null : queues(get(route, "getQueueDatas"));
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    private static Object frame(byte[] data) throws Exception {
        RemotingCommand command = RemotingCommand.decode(data);
        List<Object> fields = new ArrayList<>();
        fields.add(command.getCode());
        fields.add(command.getLanguage() == null ? null : command.getLanguage().name());
        fields.add(command.getVersion());
        fields.add(command.getOpaque());
        fields.add(command.getFlag());
        fields.add(command.getRemark());
        fields.add(command.getExtFields());
        fields.add(command.getBody() == null ? "" : Base64.getEncoder().encodeToString(command.getBody()));
        return fields;
    }

    /** As DefaultRequestProcessor takes a registration apart, both generations. */
    private static Object registration(int version, boolean zipped, byte[] data) throws Exception {
        Class<?> versions = Class.forName("org.apache.rocketmq.common.MQVersion");
        Enum<?> named = (Enum<?>) versions.getMethod("value2Version", int.class).invoke(null, version);
        boolean whole = named.ordinal() >= ordinal(named, "V3_0_11");
        Class<?> kind = found(BODIES, whole ? "RegisterBrokerBody" : "TopicConfigSerializeWrapper");
        Object body;
        if (data.length == 0) {
            body = kind.getDeclaredConstructor().newInstance();
            Object first = get(whole ? get(body, "getTopicConfigSerializeWrapper") : body, "getDataVersion");
            first.getClass().getMethod("setTimestamp", long.class).invoke(first, 0L);
        } else if (whole) {
            body = registerBody(kind, named, zipped, data);
        } else {
            body = decode(kind, data);
        }
        List<Object> fields = new ArrayList<>();
        Object wrapper = whole ? get(body, "getTopicConfigSerializeWrapper") : body;
        fields.add(wrapper == null ? null : dataVersion(get(wrapper, "getDataVersion")));
        fields.add(wrapper == null ? null : topics(get(wrapper, "getTopicConfigTable")));
        fields.add(wrapper == null ? null : mappings(wrapper));
        fields.add(whole ? get(body, "getFilterServerList") : null);
        return fields;
    }

    private static Object registerBody(Class<?> kind, Enum<?> version, boolean zipped, byte[] data) throws Exception {
        for (Method method : kind.getMethods()) {
            Class<?>[] types = method.getParameterTypes();
            if (method.getName().equals("decode") && types.length > 1 && types[1] == boolean.class) {
                return types.length == 2 ? method.invoke(null, data, zipped) : method.invoke(null, data, zipped, version);
            }
        }
        throw new NoSuchMethodException("RegisterBrokerBody.decode");
    }

    private static Object dataVersion(Object version) throws Exception {
        if (version == null) {
            return null;
        }
        List<Object> fields = new ArrayList<>();
        // Before 5.0 a data version has no state version.
        fields.add(has(version, "getStateVersion") ? get(version, "getStateVersion") : 0L);
        fields.add(get(version, "getTimestamp"));
        AtomicLong counter = (AtomicLong) get(version, "getCounter");
        fields.add(counter == null ? null : counter.get());
        return fields;
    }

    private static Object topics(Object table) throws Exception {
        if (table == null) {
            return null;
        }
        List<Object> topics = new ArrayList<>();
        for (Map.Entry<?, ?> entry : ((Map<?, ?>) table).entrySet()) {
            List<Object> topic = new ArrayList<>();
            topic.add(entry.getKey());
            for (String getter : new String[] {
                "getTopicName", "getReadQueueNums", "getWriteQueueNums", "getPerm", "getTopicSysFlag"}) {
                topic.add(get(entry.getValue(), getter));
            }
            topics.add(topic);
        }
        return topics;
    }

    private static Object mappings(Object wrapper) throws Exception {
        List<Object> mappings = new ArrayList<>();
        if (!has(wrapper, "getTopicQueueMappingInfoMap")) {
            return mappings;
        }
        Map<?, ?> infos = (Map<?, ?>) get(wrapper, "getTopicQueueMappingInfoMap");
        if (infos == null) {
            return mappings;
        }
        for (Map.Entry<?, ?> entry : infos.entrySet()) {
            List<Object> mapping = new ArrayList<>();
            mapping.add(entry.getKey());
            for (String getter : new String[] {
                "getTopic", "getBname", "getTotalQueues", "getEpoch", "isDirty", "getScope", "getCurrIdMap"}) {
                mapping.add(entry.getValue() == null ? null : get(entry.getValue(), getter));
            }
            mappings.add(mapping);
        }
        return mappings;
    }

    private static Object queues(Object queueDatas) throws Exception {
        if (queueDatas == null) {
            return null;
        }
        List<Object> queues = new ArrayList<>();
        for (Object data : (Collection<?>) queueDatas) {
            List<Object> queue = new ArrayList<>();
            String sysFlag = has(data, "getTopicSysFlag") ? "getTopicSysFlag" : "getTopicSynFlag";
            for (String getter : new String[] {
                "getBrokerName", "getReadQueueNums", "getWriteQueueNums", "getPerm", sysFlag}) {
                queue.add(get(data, getter));
            }
            queues.add(queue);
        }
        return queues;
    }

    private static Object decode(Class<?> kind, byte[] data) throws Exception {
        return kind.getMethod("decode", byte[].class, Class.class).invoke(null, data, kind);
    }

    private static Class<?> found(String[] packages, String name) throws ClassNotFoundException {
        try {
            return Class.forName(packages[0] + name);
        } catch (ClassNotFoundException error) {
            return Class.forName(packages[1] + name);
        }
    }

    private static int ordinal(Enum<?> any, String name) {
        for (Enum<?> constant : any.getDeclaringClass().getEnumConstants()) {
            if (constant.name().equals(name)) {
                return constant.ordinal();
            }
        }
        throw new IllegalArgumentException(name);
    }

    private static boolean has(Object object, String getter) {
        for (Method method : object.getClass().getMethods()) {
            if (method.getName().equals(getter) && method.getParameterCount() == 0) {
                return true;
            }
        }
        return false;
    }

    private static Object get(Object object, String getter) throws Exception {
        return object.getClass().getMethod(getter).invoke(object);
    }

    private static void write(StringBuilder out, Object value) {
        if (value == null || value instanceof Number || value instanceof Boolean) {
            out.append(value);
        } else if (value instanceof Map) {
            char before = '{';
            for (Map.Entry<?, ?> entry : ((Map<?, ?>) value).entrySet()) {
                out.append(before);
                write(out, entry.getKey() == null ? "\0null" : entry.getKey().toString());
                out.append(':');
                write(out, entry.getValue());
                before = ',';
            }
            out.append(before == '{' ? "{}" : "}");
        } else if (value instanceof Collection) {
            char before = '[';
            for (Object item : (Collection<?>) value) {
                out.append(before);
                write(out, item);
                before = ',';
            }
            out.append(before == '[' ? "[]" : "]");
        } else {
            out.append('"');
            for (char letter : value.toString().toCharArray()) {
                if (letter >= ' ' && letter < 127 && letter != '"' && letter != '\\') {
                    out.append(letter);
                } else {
                    out.append(String.format("\\u%04x", (int) letter));
                }
            }
            out.append('"');
        }
    }
}
