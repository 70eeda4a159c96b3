package oracle;

import java.io.BufferedInputStream;
import java.io.DataInputStream;
import java.io.EOFException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import lines.LineServer;
import org.apache.rocketmq.common.namesrv.NamesrvConfig;
import org.apache.rocketmq.namesrv.NamesrvController;
import org.apache.rocketmq.namesrv.routeinfo.Generation;
import org.apache.rocketmq.namesrv.routeinfo.RouteInfoManager;

/** Feeds a day of beats to the real RouteInfoManager, every beat a full registration that was decoded beforehand. */
public final class FleetDriver {

    private FleetDriver() {
    }

    public static void main(String[] args) throws Exception {
        LineServer.serve(() -> FleetDriver::answer);
    }

    /**
     * Takes "file brokers topics started_ms period_ms" and returns the nanoseconds that the day took, and for each
     * removal by a scan the broker's number and the milliseconds of its last beat.
     *
     * <p>The file has 12 bytes a beat, in order of time: the broker's number (int) and the milliseconds (long).
     */
    private static String answer(String line) throws Exception {
        String[] words = line.split(" ");
        int brokers = Integer.parseInt(words[1]);
        NamesrvController controller = Generation.controller(new NamesrvConfig(), new Observed());
        RouteInfoManager routes = controller.getRouteInfoManager();
        List<Callable<?>> registrations = new ArrayList<>();
        List<Object> closed = new ArrayList<>(); // a scan closes the channel of each broker that it removes
        for (int number = 0; number < brokers; number++) {
            registrations.add(Generation.register(routes, registration(number, Integer.parseInt(words[2])),
                new FakeChannel("c" + number, null, closed)));
        }
        long[] lastBeat = new long[brokers];
        StringBuilder removals = new StringBuilder();
        Map<String, Object> ignored = new HashMap<>();
        long tick = Long.parseLong(words[3]) + 5_000;
        long period = Long.parseLong(words[4]);
        long began = System.nanoTime();
        try (DataInputStream in = new DataInputStream(
            new BufferedInputStream(Files.newInputStream(Path.of(words[0])), 1 << 20))) {
            while (true) {
                int number = in.readInt();
                long at = in.readLong();
                for (; tick <= at; tick += period) {
                    VClock.set(tick);
                    Generation.scan(routes, ignored);
                    Generation.drain(routes);
                    for (Object channel : closed) {
                        int silent = Integer.parseInt(((String) channel).substring(1));
                        removals.append(' ').append(silent).append(' ').append(lastBeat[silent]);
                    }
                    closed.clear();
                }
                VClock.set(at);
                registrations.get(number).call();
                lastBeat[number] = at;
            }
        } catch (EOFException end) {
            return (System.nanoTime() - began) + removals.toString();
        }
    }

    private static Map<String, Object> registration(int number, int topics) {
        List<Map<String, Object>> configs = new ArrayList<>();
        for (int topic = 0; topic < topics; topic++) {
            configs.add(Map.of("name", "b" + number + "-topic-" + topic, "r", 8L, "w", 8L, "perm", 6L, "sys", 0L));
        }
        Map<String, Object> event = new HashMap<>();
        event.put("dv", Map.of("state", 0L, "ts", 1_700_000_000_000L, "counter", 0L));
        event.put("topics", configs);
        event.put("cluster", "fleet");
        event.put("addr", "broker-" + number);
        event.put("name", "broker-" + number);
        event.put("id", 0L);
        event.put("ha", "");
        event.put("filters", List.of());
        return event;
    }
}
