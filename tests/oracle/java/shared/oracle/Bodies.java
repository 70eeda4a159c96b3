package oracle;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.namesrv.routeinfo.Generation;

/** Bodies of requests, as JSON values in the order in which a broker lists them. */
final class Bodies {

    private Bodies() {
    }

    @SuppressWarnings("unchecked")
    static Object registration(Map<String, Object> event) {
        Map<String, Object> table = null;
        if (event.get("topics") != null) {
            table = new LinkedHashMap<>();
            for (Map<String, Object> topic : (List<Map<String, Object>>) event.get("topics")) {
                Map<String, Object> config = new LinkedHashMap<>();
                config.put("topicName", topic.get("name"));
                config.putAll(numbers(topic));
                config.put("topicFilterType", "SINGLE_TAG");
                config.put("order", false);
                table.put((String) topic.get("name"), config);
            }
        }
        Map<String, Object> wrapper = new LinkedHashMap<>();
        wrapper.put("dataVersion", version(event.get("dv")));
        wrapper.put("topicConfigTable", table);
        if (event.get("mapping") != null) {
            Map<String, Object> mappings = new LinkedHashMap<>();
            ((Map<String, Map<String, Object>>) event.get("mapping")).forEach((topic, info) -> {
                Map<String, Object> mapping = new LinkedHashMap<>(info);
                mapping.put("topic", topic);
                mappings.put(topic, mapping);
            });
            wrapper.put("topicQueueMappingInfoMap", mappings);
        }
        Map<String, Object> body = new LinkedHashMap<>();
        body.put("topicConfigSerializeWrapper", wrapper);
        body.put("filterServerList", event.get("filters"));
        return body;
    }

    static Map<String, Object> version(Object dv) {
        if (!(dv instanceof Map<?, ?> given)) {
            return null;
        }
        Map<String, Object> version = new LinkedHashMap<>();
        version.put("counter", given.get("counter"));
        if (Generation.FIVE) {
            version.put("stateVersion", given.get("state") == null ? 0 : given.get("state"));
        }
        version.put("timestamp", given.get("ts"));
        return version;
    }

    @SuppressWarnings("unchecked")
    static Object queues(Map<String, Object> event) {
        if (event.get("queues") == null) {
            return null;
        }
        List<Object> queues = new ArrayList<>();
        for (Map<String, Object> fields : (List<Map<String, Object>>) event.get("queues")) {
            Map<String, Object> queue = new LinkedHashMap<>();
            queue.put("brokerName", fields.get("name"));
            queue.putAll(numbers(fields));
            queues.add(queue);
        }
        return Map.of("queueDatas", queues);
    }

    private static Map<String, Object> numbers(Map<String, Object> fields) {
        Map<String, Object> numbers = new LinkedHashMap<>();
        numbers.put("readQueueNums", fields.get("r"));
        numbers.put("writeQueueNums", fields.get("w"));
        numbers.put("perm", fields.get("perm"));
        numbers.put("topicSysFlag", fields.get("sys"));
        return numbers;
    }

    /** Returns JSON text with the members in the order of the maps. */
    static String text(Object json) {
        if (json instanceof Map<?, ?> map) {
            List<String> members = new ArrayList<>();
            map.forEach((name, value) -> members.add(new Json().value(name).out + ":" + text(value)));
            return "{" + String.join(",", members) + "}";
        } else if (json instanceof List<?> list) {
            return "[" + String.join(",", list.stream().map(Bodies::text).toList()) + "]";
        }
        return new Json().value(json).out.toString();
    }
}
