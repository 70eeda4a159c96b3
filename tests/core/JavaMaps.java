import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.HashMap;
import java.util.Random;
import java.util.concurrent.ConcurrentHashMap;

/** Writes java_trees.jsonl: java JavaMaps.java 96 | gzip -n9 > java_trees.jsonl.gz */
public class JavaMaps {
    static String quoted(String text) {
        return text == null ? "null" : '"' + text + '"';
    }

    /** Keys of which many share a hash, others only a bucket of tables up to 4,096. */
    static List<String> keys(Random random, boolean withNull) {
        List<String> keys = new ArrayList<>();
        int length = 4 + random.nextInt(2);
        for (int number = 0; number < 1 << length; number++) {
            StringBuilder text = new StringBuilder();
            for (int bit = 0; bit < length; bit++) {
                text.append((number >> bit & 1) == 0 ? "Aa" : "BB");
            }
            keys.add(text.toString());
        }
        int wanted = random.nextInt(1 << 8), mask = (1 << 6 + random.nextInt(3)) - 1, found = 0;
        for (int number = random.nextInt(1 << 20); found < 40; number++) {
            String text = "broker-" + number;
            int hash = text.hashCode();
            if (((hash ^ hash >>> 16) & mask) == (wanted & mask)) {
                keys.add(text);
                found++;
            }
        }
        for (int number = 0; number < 30; number++) {
            keys.add("topic" + random.nextInt(1 << 16));
        }
        if (withNull) {
            keys.add(null);
        }
        return keys;
    }

    public static void main(String[] arguments) {
        int[] capacities = {0, 16, 64, 128, 32};
        for (int line = 0; line < Integer.parseInt(arguments[0]); line++) {
            Random random = new Random(line);
            int kind = line % 3, capacity = capacities[line % capacities.length];
            boolean concurrent = kind == 1, computes = kind == 2;
            Map<String, Integer> map = concurrent
                ? (capacity == 0 ? new ConcurrentHashMap<>() : new ConcurrentHashMap<>(capacity))
                : (capacity == 0 ? new HashMap<>() : new HashMap<>(capacity));
            List<String> keys = keys(random, !concurrent && line % 4 == 0);
            StringBuilder operations = new StringBuilder(), orders = new StringBuilder();
            int count = 500;
            double puts = 0.5;
            for (int done = 1; done <= count; done++) {
                if (done % 50 == 1) {
                    puts = random.nextDouble();
                }
                String key = keys.get(random.nextInt(keys.size()));
                boolean put = random.nextDouble() < puts;
                if (!put) {
                    map.remove(key);
                } else if (computes) {
                    map.computeIfAbsent(key, any -> 1);
                } else {
                    map.put(key, done);
                }
                operations.append(done == 1 ? "" : ",").append("[\"").append(put ? '+' : '-').append("\",");
                operations.append(keys.indexOf(key)).append(']');
                if (done % 9 == 0) {
                    StringBuilder order = new StringBuilder();
                    for (String other : map.keySet()) {
                        order.append(order.length() == 0 ? "" : ",").append(keys.indexOf(other));
                    }
                    orders.append(orders.length() == 0 ? "" : ",").append('[').append(done).append(",[");
                    orders.append(order).append("]]");
                }
            }
            StringBuilder quoted = new StringBuilder();
            for (String key : keys) {
                quoted.append(quoted.length() == 0 ? "" : ",").append(quoted(key));
            }
            System.out.println("{\"capacity\":" + capacity + ",\"concurrent\":" + concurrent + ",\"computes\":" + computes
                + ",\"keys\":[" + quoted + "],\"ops\":[" + operations + "],\"orders\":[" + orders + "]}");
        }
    }
}
