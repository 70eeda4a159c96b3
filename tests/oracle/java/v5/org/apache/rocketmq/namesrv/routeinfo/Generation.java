package org.apache.rocketmq.namesrv.routeinfo;

import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import oracle.FakeChannel;
import oracle.Json;
import oracle.Observed;
import oracle.Tables;
import oracle.VClock;
import org.apache.rocketmq.common.*; // BrokerAddrInfo is there until 5.1.0
import org.apache.rocketmq.common.namesrv.NamesrvConfig;
import org.apache.rocketmq.logging.ch.qos.logback.classic.Level;
import org.apache.rocketmq.logging.ch.qos.logback.classic.Logger;
import org.apache.rocketmq.logging.ch.qos.logback.classic.spi.ILoggingEvent;
import org.apache.rocketmq.logging.ch.qos.logback.core.AppenderBase;
import org.apache.rocketmq.logging.org.slf4j.LoggerFactory;
import org.apache.rocketmq.namesrv.NamesrvController;
import org.apache.rocketmq.namesrv.processor.ClientRequestProcessor;
import org.apache.rocketmq.namesrv.processor.DefaultRequestProcessor;
import org.apache.rocketmq.namesrv.route.ZoneRouteRPCHook;
import org.apache.rocketmq.remoting.RemotingClient;
import org.apache.rocketmq.remoting.netty.NettyRequestProcessor;
import org.apache.rocketmq.remoting.netty.NettyServerConfig;
import org.apache.rocketmq.remoting.protocol.DataVersion;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.remoting.protocol.body.TopicConfigAndMappingSerializeWrapper;
import org.apache.rocketmq.remoting.protocol.header.NotifyMinBrokerIdChangeRequestHeader;
import org.apache.rocketmq.remoting.protocol.header.namesrv.UnRegisterBrokerRequestHeader;
import org.apache.rocketmq.remoting.protocol.route.BrokerData;
import org.apache.rocketmq.remoting.protocol.route.QueueData;
import org.apache.rocketmq.remoting.protocol.statictopic.TopicQueueMappingInfo;

/** The classes and methods of 5.x; in their package, since the live entry is visible nowhere else. */
public final class Generation {

    public static final boolean FIVE = true;

    private static final Set<Map.Entry<String, Map<String, Object>>> NO_MAPPING = Set.of();

    private Generation() {
    }

    public static NamesrvController controller(NamesrvConfig config, Observed observed) {
        NamesrvController controller = new NamesrvController(config, new NettyServerConfig());
        Object client = Proxy.newProxyInstance(RemotingClient.class.getClassLoader(), new Class<?>[] {RemotingClient.class},
            (proxy, method, arguments) -> {
                observed.sent.add(notification((String) arguments[0], (RemotingCommand) arguments[1]));
                return null;
            });
        Tables.set(controller, "remotingClient", client);
        return controller;
    }

    public static NettyRequestProcessor processor(NamesrvController controller, boolean route) {
        return route ? new ClientRequestProcessor(controller) : new DefaultRequestProcessor(controller);
    }

    private static Object notification(String to, RemotingCommand request) {
        var header = (NotifyMinBrokerIdChangeRequestHeader) request.readCustomHeader();
        Map<String, Object> sent = new HashMap<>();
        sent.put("to", to);
        sent.put("code", request.getCode());
        sent.put("minBrokerId", header.getMinBrokerId());
        sent.put("minBrokerAddr", header.getMinBrokerAddr());
        sent.put("offlineBrokerAddr", header.getOfflineBrokerAddr());
        sent.put("haBrokerAddr", header.getHaBrokerAddr());
        sent.put("brokerName", header.getBrokerName());
        return sent;
    }

    /** Does what the server does to a response before it is sent. */
    public static void afterResponse(RemotingCommand request, RemotingCommand response) {
        new ZoneRouteRPCHook().doAfterResponse(null, request, response);
    }

    // -- events ----------------------------------------------------------------------------------------------------

    @SuppressWarnings("unchecked")
    public static Callable<?> register(RouteInfoManager routes, Map<String, Object> event, FakeChannel channel) {
        TopicConfigAndMappingSerializeWrapper wrapper = new TopicConfigAndMappingSerializeWrapper();
        wrapper.setDataVersion(version(event.get("dv")));
        List<Map<String, Object>> topics = (List<Map<String, Object>>) event.get("topics");
        wrapper.setTopicConfigTable(topics == null ? null : new ConcurrentHashMap<>());
        for (Map<String, Object> topic : topics == null ? List.<Map<String, Object>>of() : topics) {
            TopicConfig config = new TopicConfig((String) topic.get("name"));
            config.setReadQueueNums(number(topic, "r"));
            config.setWriteQueueNums(number(topic, "w"));
            config.setPerm(number(topic, "perm"));
            config.setTopicSysFlag(number(topic, "sys"));
            wrapper.getTopicConfigTable().put(config.getTopicName(), config);
        }
        Map<String, Map<String, Object>> mapping = (Map<String, Map<String, Object>>) event.get("mapping");
        for (Map.Entry<String, Map<String, Object>> entry : mapping == null ? NO_MAPPING : mapping.entrySet()) {
            Map<String, Object> info = entry.getValue();
            wrapper.getTopicQueueMappingInfoMap().put(entry.getKey(), new TopicQueueMappingInfo(
                entry.getKey(), number(info, "totalQueues"), (String) info.get("bname"), (Long) info.get("epoch")));
        }
        String cluster = (String) event.get("cluster");
        String addr = (String) event.get("addr");
        Long timeout = (Long) event.get("timeout");
        Boolean acting = (Boolean) event.get("acting");
        String zone = (String) event.get("zone");
        String name = (String) event.get("name");
        long id = (Long) event.get("id");
        String ha = (String) event.get("ha");
        List<String> filters = (List<String>) event.get("filters");
        return () -> {
            var result = routes.registerBroker(
                cluster, addr, name, id, ha, zone, timeout, acting, wrapper, filters, channel);
            return result == null ? null : Tables.pair(
                "haServerAddr", result.getHaServerAddr(), "masterAddr", result.getMasterAddr());
        };
    }

    public static Object unregister(RouteInfoManager routes, Map<String, Object> event, Map<String, Object> res) {
        UnRegisterBrokerRequestHeader request = new UnRegisterBrokerRequestHeader();
        request.setClusterName((String) event.get("cluster"));
        request.setBrokerAddr((String) event.get("addr"));
        request.setBrokerName((String) event.get("name"));
        request.setBrokerId((Long) event.get("id"));
        return res.put("submitted", routes.submitUnRegisterBrokerRequest(request));
    }

    /** Does what the batch thread does, in the order of submission, and returns the number of requests. */
    public static int drain(RouteInfoManager routes) {
        Set<UnRegisterBrokerRequestHeader> batch = new LinkedHashSet<>();
        queue(routes).drainTo(batch);
        if (!batch.isEmpty()) {
            routes.unRegisterBroker(batch);
        }
        return batch.size();
    }

    private static BlockingQueue<UnRegisterBrokerRequestHeader> queue(RouteInfoManager routes) {
        Object service = Tables.field(routes, "unRegisterService");
        return Tables.field(service, "unregistrationQueue");
    }

    public static Callable<?> heartbeat(RouteInfoManager routes, Map<String, Object> event) {
        String cluster = (String) event.get("cluster");
        String addr = (String) event.get("addr");
        return () -> {
            routes.updateBrokerInfoUpdateTimestamp(cluster, addr);
            return null;
        };
    }

    public static Callable<?> queryDataVersion(RouteInfoManager routes, Map<String, Object> event, Map<String, Object> res) {
        String cluster = (String) event.get("cluster");
        String addr = (String) event.get("addr");
        DataVersion version = version(event.get("dv"));
        return () -> {
            boolean changed = routes.isBrokerTopicConfigChanged(cluster, addr, version);
            routes.updateBrokerInfoUpdateTimestamp(cluster, addr);
            DataVersion stored = routes.queryBrokerTopicConfig(cluster, addr);
            res.put("changed", changed);
            res.put("dataVersion", Json.Raw.of(json -> version(stored, json)));
            return null;
        };
    }

    public static void scan(RouteInfoManager routes, Map<String, Object> res) {
        routes.scanNotActiveBroker();
    }

    public static void destroy(RouteInfoManager routes, String remote, FakeChannel channel) {
        routes.onChannelDestroy(channel);
    }

    @SuppressWarnings("unchecked")
    public static Callable<?> registerTopic(RouteInfoManager routes, Map<String, Object> event) {
        List<Map<String, Object>> given = (List<Map<String, Object>>) event.get("queues");
        List<QueueData> queues = given == null ? null : new ArrayList<>();
        for (Map<String, Object> fields : given == null ? List.<Map<String, Object>>of() : given) {
            QueueData queue = new QueueData();
            queue.setBrokerName((String) fields.get("name"));
            queue.setReadQueueNums(number(fields, "r"));
            queue.setWriteQueueNums(number(fields, "w"));
            queue.setPerm(number(fields, "perm"));
            queue.setTopicSysFlag(number(fields, "sys"));
            queues.add(queue);
        }
        return () -> {
            routes.registerTopic((String) event.get("topic"), queues);
            return null;
        };
    }

    // -- results and state -----------------------------------------------------------------------------------------

    public static Object route(RouteInfoManager routes, String topic) {
        var route = routes.pickupTopicRouteData(topic);
        return route == null ? null : Json.Raw.of(json -> {
            json.open('{').key("brokerDatas").open('[');
            route.getBrokerDatas().forEach(group -> group(group, json));
            json.close(']').key("filterServerTable").value(route.getFilterServerTable());
            json.key("orderTopicConf").value(route.getOrderTopicConf()).key("queueDatas").open('[');
            route.getQueueDatas().forEach(queue -> queue(queue, json));
            json.close(']').key("topicQueueMappingByBroker");
            if (route.getTopicQueueMappingByBroker() == null) {
                json.value(null);
            } else {
                json.map(route.getTopicQueueMappingByBroker(), Json::name, info -> mapping(info, json));
            }
            json.close('}');
        });
    }

    public static void memberGroup(RouteInfoManager routes, Map<String, Object> event, Map<String, Object> res) {
        var group = routes.getBrokerMemberGroup((String) event.get("cluster"), (String) event.get("name"));
        res.put("cluster", group.getCluster());
        res.put("brokerName", group.getBrokerName());
        res.put("brokerAddrs", group.getBrokerAddrs());
    }

    public static Map<String, Map<String, QueueData>> topics(RouteInfoManager routes) {
        return Tables.field(routes, "topicQueueTable");
    }

    public static Map<String, BrokerData> groups(RouteInfoManager routes) {
        return Tables.field(routes, "brokerAddrTable");
    }

    public static Map<String, Set<String>> clusters(RouteInfoManager routes) {
        return Tables.field(routes, "clusterAddrTable");
    }

    public static Map<Object, Object> live(RouteInfoManager routes) {
        return Tables.field(routes, "brokerLiveTable");
    }

    public static Map<Object, List<String>> filters(RouteInfoManager routes) {
        return Tables.field(routes, "filterServerTable");
    }

    public static String liveName(Object key) {
        BrokerAddrInfo info = (BrokerAddrInfo) key;
        return info.getClusterName() + "|" + info.getBrokerAddr();
    }

    public static void live(Object entry, Json json) {
        BrokerLiveInfo live = (BrokerLiveInfo) entry;
        json.open('{').key("channel").value(FakeChannel.idOf(live.getChannel())).key("dataVersion");
        version(live.getDataVersion(), json);
        json.key("haServerAddr").value(live.getHaServerAddr());
        json.key("heartbeatTimeoutMillis").value(live.getHeartbeatTimeoutMillis());
        json.key("lastUpdateTimestamp").value(live.getLastUpdateTimestamp()).close('}');
    }

    public static void group(BrokerData group, Json json) {
        json.open('{').key("brokerAddrs").value(group.getBrokerAddrs()).key("brokerName").value(group.getBrokerName());
        json.key("cluster").value(group.getCluster());
        json.key("enableActingMaster").value(group.isEnableActingMaster());
        json.key("zoneName").value(group.getZoneName()).close('}');
    }

    public static void queue(QueueData queue, Json json) {
        json.open('{').key("brokerName").value(queue.getBrokerName()).key("perm").value(queue.getPerm());
        json.key("readQueueNums").value(queue.getReadQueueNums()).key("topicSysFlag").value(queue.getTopicSysFlag());
        json.key("writeQueueNums").value(queue.getWriteQueueNums()).close('}');
    }

    public static void moreState(RouteInfoManager routes, Json json) {
        json.key("pendingUnregister").open('[');
        for (UnRegisterBrokerRequestHeader waiting : queue(routes)) {
            json.open('{').key("addr").value(waiting.getBrokerAddr()).key("cluster").value(waiting.getClusterName());
            json.key("id").value(waiting.getBrokerId()).key("name").value(waiting.getBrokerName()).close('}');
        }
        json.close(']');
        Map<String, Map<String, TopicQueueMappingInfo>> mappings = Tables.field(routes, "topicQueueMappingInfoTable");
        json.key("topicQueueMappingInfoTable").map(mappings, Json::name,
            infos -> json.map(infos, Json::name, info -> mapping(info, json)));
    }

    private static void mapping(TopicQueueMappingInfo info, Json json) {
        json.open('{').key("bname").value(info.getBname()).key("dirty").value(info.isDirty());
        json.key("epoch").value(info.getEpoch()).key("topic").value(info.getTopic());
        json.key("totalQueues").value(info.getTotalQueues()).close('}');
    }

    private static void version(DataVersion version, Json json) {
        if (version == null) {
            json.value(null);
            return;
        }
        json.open('{').key("counter").value(version.getCounter());
        json.key("stateVersion").value(version.getStateVersion());
        json.key("timestamp").value(version.getTimestamp()).close('}');
    }

    private static DataVersion version(Object dv) {
        if (!(dv instanceof Map<?, ?> given)) {
            return null;
        }
        DataVersion version = new DataVersion();
        version.setStateVersion(given.get("state") instanceof Long state ? state : 0);
        version.setTimestamp((Long) given.get("ts"));
        version.setCounter(given.get("counter") instanceof Long counter ? new AtomicLong(counter) : null);
        return version;
    }

    private static int number(Map<String, Object> fields, String name) {
        return ((Long) fields.get(name)).intValue();
    }

    /** Notes the class of every exception that is logged. */
    public static void watchErrors(Observed observed) {
        Logger root = (Logger) LoggerFactory.getLogger(org.apache.rocketmq.logging.org.slf4j.Logger.ROOT_LOGGER_NAME);
        root.getLoggerContext().reset(); // whatever the release has configured for itself
        root.setLevel(Level.ERROR);
        AppenderBase<ILoggingEvent> appender = new AppenderBase<>() {
            @Override
            protected void append(ILoggingEvent logged) {
                if (logged.getThrowableProxy() != null) {
                    observed.swallowed.add(logged.getThrowableProxy().getClassName());
                }
            }
        };
        appender.setContext(root.getLoggerContext());
        appender.start();
        root.addAppender(appender);
    }
}
