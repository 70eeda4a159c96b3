package oracle;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import org.apache.rocketmq.common.MixAll;
import org.apache.rocketmq.common.namesrv.NamesrvConfig;
import org.apache.rocketmq.namesrv.NamesrvController;
import org.apache.rocketmq.namesrv.kvconfig.KVConfigManager;
import org.apache.rocketmq.namesrv.routeinfo.Generation;
import org.apache.rocketmq.namesrv.routeinfo.RouteInfoManager;

/** A real controller that is never started: no thread, no port. Events become calls of its managers. */
class Nameserver {

    private final Observed observed;
    private final Path kvFile;
    private final Map<String, FakeChannel> channels = new HashMap<>();
    private Map<String, Object> init = Map.of();
    private NamesrvController controller;

    Nameserver(Observed observed) {
        this.observed = observed;
        try {
            kvFile = Files.createTempDirectory("oracle").resolve("kvConfig.json");
        } catch (IOException e) {
            throw new java.io.UncheckedIOException(e);
        }
        start();
    }

    /** Applies one event and returns "res", for requests also "wire". */
    Map<String, Object> take(Map<String, Object> event) throws Exception {
        observed.clear();
        if (event.get("t_ms") instanceof Long millis) {
            VClock.set(millis);
        }
        Map<String, Object> answered = new TreeMap<>();
        Map<String, Object> res = new TreeMap<>();
        try {
            apply(event, res, answered);
        } catch (RuntimeException e) {
            res.put("exception", e.getClass().getName());
        }
        observed.addTo(res);
        answered.put("res", res);
        return answered;
    }

    /** Applies events that were decoded before the clock runs, and returns the nanoseconds that the calls took. */
    long timed(List<Map<String, Object>> events) throws Exception {
        Map<String, Object> res = new TreeMap<>();
        List<Callable<?>> calls = new ArrayList<>();
        long[] millis = new long[events.size()];
        for (Map<String, Object> event : events) {
            millis[calls.size()] = (Long) event.get("t_ms");
            calls.add(call(event, res));
        }
        long began = System.nanoTime();
        for (int i = 0; i < millis.length; i++) {
            VClock.set(millis[i]);
            calls.get(i).call();
        }
        return System.nanoTime() - began;
    }

    /** Applies the event; what it returns goes into `res`, the response to a request into `answered`. */
    void apply(Map<String, Object> event, Map<String, Object> res, Map<String, Object> answered) throws Exception {
        call(event, res).call();
        drainUnlessDeferred(event, res);
    }

    final void drainUnlessDeferred(Map<String, Object> event, Map<String, Object> res) {
        List<String> ending = List.of("unregister", "scan", "channel_destroy", "drain");
        if (Generation.FIVE && ending.contains(event.get("op")) && event.get("defer") != Boolean.TRUE) {
            res.put("batch", Generation.drain(routes()));
        }
    }

    final NamesrvController controller() {
        return controller;
    }

    final FakeChannel channelOf(Map<String, Object> event) {
        String id = (String) event.get("ch");
        return id == null ? null : channels.computeIfAbsent(id, key -> new FakeChannel(key, remoteOf(key), observed.closed));
    }

    private RouteInfoManager routes() {
        return controller.getRouteInfoManager();
    }

    private String remoteOf(String channel) {
        return (String) ((Map<?, ?>) init.getOrDefault("channels", Map.of())).get(channel);
    }

    private void start() {
        Properties properties = new Properties();
        ((Map<?, ?>) init.getOrDefault("config", Map.of())).forEach((k, v) -> properties.put(k, String.valueOf(v)));
        NamesrvConfig config = new NamesrvConfig();
        MixAll.properties2Object(properties, config);
        config.setKvConfigPath(kvFile.toString());
        controller = Generation.controller(config, observed);
        controller.getKvConfigManager().load();
    }

    private void restart(boolean keepKv) throws IOException {
        if (!keepKv) {
            Files.deleteIfExists(kvFile);
            Files.deleteIfExists(Path.of(kvFile + ".bak"));
        }
        start();
    }

    /** Returns the event as a call with decoded arguments, which puts what it returns into `res`. */
    final Callable<?> call(Map<String, Object> event, Map<String, Object> res) {
        String op = (String) event.get("op");
        RouteInfoManager routes = routes();
        switch (op) {
            case "init":
                return () -> {
                    init = event;
                    channels.clear();
                    restart(false);
                    return null;
                };
            case "restart":
                return () -> {
                    restart(event.get("keep_kv") != Boolean.FALSE);
                    return null;
                };
            case "register":
                Callable<?> register = Generation.register(routes, event, channelOf(event));
                return () -> res.put("ret", register.call());
            case "unregister":
                return () -> Generation.unregister(routes, event, res);
            case "drain":
                return () -> null;
            case "heartbeat":
                return Generation.heartbeat(routes, event);
            case "query_dv":
                return Generation.queryDataVersion(routes, event, res);
            case "scan":
                return () -> scan(res);
            case "channel_destroy":
                return () -> {
                    res.put("liveOrder", liveOrder());
                    FakeChannel channel = channelOf(event);
                    String remote = event.containsKey("remote") ? (String) event.get("remote")
                        : channel == null ? null : remoteOf((String) event.get("ch"));
                    Generation.destroy(routes, remote, channel);
                    return null;
                };
            case "wipe_perm":
                return () -> res.put("count", routes.wipeWritePermOfBrokerByLock((String) event.get("name")));
            case "add_perm":
                return () -> res.put("count", routes.addWritePermOfBrokerByLock((String) event.get("name")));
            case "delete_topic":
                return () -> deleteTopic((String) event.get("topic"), (String) event.get("cluster"));
            case "register_topic":
                return Generation.registerTopic(routes, event);
            default:
                return () -> {
                    query(op, event, res);
                    return null;
                };
        }
    }

    private Object scan(Map<String, Object> res) {
        res.put("liveOrder", liveOrder());
        Generation.scan(routes(), res);
        return null;
    }

    private Object deleteTopic(String topic, String cluster) {
        if (cluster == null || cluster.isEmpty()) {
            routes().deleteTopic(topic);
        } else {
            routes().deleteTopic(topic, cluster);
        }
        return null;
    }

    private void query(String op, Map<String, Object> event, Map<String, Object> res) {
        RouteInfoManager routes = routes();
        KVConfigManager kv = controller.getKvConfigManager();
        String ns = (String) event.get("ns");
        String key = (String) event.get("key");
        switch (op) {
            case "kv_put" -> kv.putKVConfig(ns, key, (String) event.get("value"));
            case "kv_delete" -> kv.deleteKVConfig(ns, key);
            case "kv_get" -> res.put("value", kv.getKVConfig(ns, key));
            case "kv_list" -> {
                byte[] json = kv.getKVListByNamespace(ns);
                res.put("json", json == null ? null : new String(json, StandardCharsets.UTF_8));
            }
            case "route" -> res.put("ret", Generation.route(routes, (String) event.get("topic")));
            case "cluster_info" -> {
                res.put("clusterAddrTable", Json.Raw.of(this::writeClusters));
                res.put("brokerAddrTable", Json.Raw.of(this::writeGroups));
            }
            case "member_group" -> Generation.memberGroup(routes, event, res);
            default -> {
                var list = switch (op) {
                    case "topic_list" -> routes.getAllTopicList();
                    case "system_topics" -> routes.getSystemTopicList();
                    case "topics_by_cluster" -> routes.getTopicsByCluster((String) event.get("cluster"));
                    case "unit_topics" -> routes.getUnitTopics();
                    case "unit_sub_topics" -> routes.getHasUnitSubTopicList();
                    case "unit_sub_ununit_topics" -> routes.getHasUnitSubUnUnitTopicList();
                    default -> throw new IllegalArgumentException("unknown operation " + op);
                };
                List<String> topics = new ArrayList<>(list.getTopicList());
                topics.sort(Comparator.comparing(Json::name, Json.BY_CODE_POINT));
                res.put("topicList", topics);
                res.put("brokerAddr", list.getBrokerAddr());
            }
        }
    }

    private List<Object> liveOrder() {
        List<Object> order = new ArrayList<>();
        Generation.live(routes()).keySet().forEach(key -> order.add(Generation.liveName(key)));
        return order;
    }

    private static List<String> sorted(Collection<String> names) {
        List<String> sorted = new ArrayList<>();
        names.forEach(name -> sorted.add(Json.name(name)));
        sorted.sort(Json.BY_CODE_POINT);
        return sorted;
    }

    /** Returns all tables as canonical JSON. */
    final String state() {
        Json json = new Json();
        RouteInfoManager routes = routes();
        json.open('{');
        writeGroups(json.key("brokerAddrTable"));
        json.key("brokerLiveTable").map(Generation.live(routes), Generation::liveName, e -> Generation.live(e, json));
        writeClusters(json.key("clusterAddrTable"));
        json.key("filterServerTable").map(Generation.filters(routes), Generation::liveName, json::value);
        json.key("kvConfig").value((Object) Tables.field(controller.getKvConfigManager(), "configTable"));
        Generation.moreState(routes, json);
        json.key("topicQueueTable").map(Generation.topics(routes), Json::name,
            queues -> json.map(queues, Json::name, queue -> Generation.queue(queue, json)));
        return json.close('}').out.toString();
    }

    private void writeGroups(Json json) {
        json.map(Generation.groups(routes()), Json::name, group -> Generation.group(group, json));
    }

    private void writeClusters(Json json) {
        json.map(Generation.clusters(routes()), Json::name, names -> json.value(sorted(names)));
    }
}
