package org.apache.rocketmq.namesrv.routeinfo;

import ch.qos.logback.classic.Level;
import ch.qos.logback.classic.Logger;
import ch.qos.logback.classic.spi.ILoggingEvent;
import ch.qos.logback.core.AppenderBase;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import oracle.FakeChannel;
import oracle.Json;
import oracle.Observed;
import oracle.Tables;
import oracle.VClock;
import org.apache.rocketmq.common.DataVersion;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.namesrv.NamesrvConfig;
import org.apache.rocketmq.common.protocol.body.TopicConfigSerializeWrapper;
import org.apache.rocketmq.common.protocol.route.BrokerData;
import org.apache.rocketmq.common.protocol.route.QueueData;
import org.apache.rocketmq.namesrv.NamesrvController;
import org.apache.rocketmq.namesrv.processor.DefaultRequestProcessor;
import org.apache.rocketmq.remoting.netty.NettyRequestProcessor;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.remoting.netty.NettyServerConfig;
import org.slf4j.LoggerFactory;

/** The classes and methods of 4.x; in their package, since the live entry is visible nowhere else. */
public final class Generation {

    public static final boolean FIVE = false;

    private Generation() {
    }

    public static NamesrvController controller(NamesrvConfig config, Observed observed) {
        return new NamesrvController(config, new NettyServerConfig());
    }

    public static NettyRequestProcessor processor(NamesrvController controller, boolean route) {
        return new DefaultRequestProcessor(controller);
    }

    /** Does what the server does to a response before it is sent: nothing. */
    public static void afterResponse(RemotingCommand request, RemotingCommand response) {
    }

    // -- events ----------------------------------------------------------------------------------------------------

    @SuppressWarnings("unchecked")
    public static Callable<?> register(RouteInfoManager routes, Map<String, Object> event, FakeChannel channel) {
        TopicConfigSerializeWrapper wrapper = new TopicConfigSerializeWrapper();
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
        String cluster = (String) event.get("cluster");
        String addr = (String) event.get("addr");
        String name = (String) event.get("name");
        long id = (Long) event.get("id");
        String ha = (String) event.get("ha");
        List<String> filters = (List<String>) event.get("filters");
        return () -> {
            var result = routes.registerBroker(cluster, addr, name, id, ha, wrapper, filters, channel);
            return result == null ? null : Tables.pair(
                "haServerAddr", result.getHaServerAddr(), "masterAddr", result.getMasterAddr());
        };
    }

    public static Object unregister(RouteInfoManager routes, Map<String, Object> event, Map<String, Object> res) {
        routes.unregisterBroker((String) event.get("cluster"), (String) event.get("addr"), (String) event.get("name"),
            (Long) event.get("id"));
        return null;
    }

    public static int drain(RouteInfoManager routes) {
        throw new UnsupportedOperationException();
    }

    public static Callable<?> heartbeat(RouteInfoManager routes, Map<String, Object> event) {
        String addr = (String) event.get("addr");
        return () -> {
            routes.updateBrokerInfoUpdateTimestamp(addr, VClock.currentTimeMillis());
            return null;
        };
    }

    public static Callable<?> queryDataVersion(RouteInfoManager routes, Map<String, Object> event, Map<String, Object> res) {
        String addr = (String) event.get("addr");
        DataVersion version = version(event.get("dv"));
        return () -> {
            boolean changed = routes.isBrokerTopicConfigChanged(addr, version);
            if (!changed) {
                routes.updateBrokerInfoUpdateTimestamp(addr, VClock.currentTimeMillis());
            }
            DataVersion stored = routes.queryBrokerTopicConfig(addr);
            res.put("changed", changed);
            res.put("dataVersion", Json.Raw.of(json -> version(stored, json)));
            return null;
        };
    }

    public static void scan(RouteInfoManager routes, Map<String, Object> res) {
        res.put("removed", routes.scanNotActiveBroker());
    }

    public static void destroy(RouteInfoManager routes, String remote, FakeChannel channel) {
        routes.onChannelDestroy(remote, channel);
    }

    public static Callable<?> registerTopic(RouteInfoManager routes, Map<String, Object> event) {
        throw new UnsupportedOperationException("4.x has no REGISTER_TOPIC_IN_NAMESRV");
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
            json.close(']').close('}');
        });
    }

    public static void memberGroup(RouteInfoManager routes, Map<String, Object> event, Map<String, Object> res) {
        throw new UnsupportedOperationException("4.x has no GET_BROKER_MEMBER_GROUP");
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
        return Json.name(key);
    }

    public static void live(Object entry, Json json) {
        BrokerLiveInfo live = (BrokerLiveInfo) entry;
        json.open('{').key("channel").value(FakeChannel.idOf(live.getChannel())).key("dataVersion");
        version(live.getDataVersion(), json);
        json.key("haServerAddr").value(live.getHaServerAddr());
        json.key("lastUpdateTimestamp").value(live.getLastUpdateTimestamp()).close('}');
    }

    public static void group(BrokerData group, Json json) {
        json.open('{').key("brokerAddrs").value(group.getBrokerAddrs()).key("brokerName").value(group.getBrokerName());
        json.key("cluster").value(group.getCluster()).close('}');
    }

    public static void queue(QueueData queue, Json json) {
        json.open('{').key("brokerName").value(queue.getBrokerName()).key("perm").value(queue.getPerm());
        json.key("readQueueNums").value(queue.getReadQueueNums()).key("topicSysFlag").value(queue.getTopicSysFlag());
        json.key("writeQueueNums").value(queue.getWriteQueueNums()).close('}');
    }

    public static void moreState(RouteInfoManager routes, Json json) {
        // 4.x has no more tables
    }

    private static void version(DataVersion version, Json json) {
        if (version == null) {
            json.value(null);
            return;
        }
        json.open('{').key("counter").value(version.getCounter());
        json.key("timestamp").value(version.getTimestamp()).close('}');
    }

    private static DataVersion version(Object dv) {
        if (!(dv instanceof Map<?, ?> given)) {
            return null;
        }
        DataVersion version = new DataVersion();
        version.setTimestamp((Long) given.get("ts"));
        version.setCounter(given.get("counter") instanceof Long counter ? new AtomicLong(counter) : null);
        return version;
    }

    private static int number(Map<String, Object> fields, String name) {
        return ((Long) fields.get(name)).intValue();
    }

    /** Notes the class of every exception that is logged. */
    public static void watchErrors(Observed observed) {
        Logger root = (Logger) LoggerFactory.getLogger(org.slf4j.Logger.ROOT_LOGGER_NAME);
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
