package oracle;

import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import lines.LineServer;
import org.apache.rocketmq.namesrv.routeinfo.Generation;

/**
 * Drives two real name servers with trace events, one by calling its route manager, one by requests to its processors.
 *
 * A line is a letter, a blank and an event (t: an object with "events", whose calls are
 * timed: the answer is nanoseconds). The letter says which server takes it: d (direct) or w (wire); in upper case
 * the answer has the whole state. Answers are canonical JSON: "h" the state's hash, "res", for requests "wire".
 */
public final class Driver {

    private final Observed observed = new Observed();
    private final Nameserver direct = new Nameserver(observed);
    private final WireNameserver wire = new WireNameserver(observed);

    private Driver() {
        Generation.watchErrors(observed);
    }

    public static void main(String[] args) throws Exception {
        LineServer.serve(() -> new Driver()::answer);
    }

    @SuppressWarnings("unchecked")
    private String answer(String line) throws Exception {
        char letter = line.charAt(0);
        if (letter == 't') {
            Map<String, Object> timed = (Map<String, Object>) Json.parse(line.substring(2));
            return String.valueOf(direct.timed((List<Map<String, Object>>) timed.get("events")));
        }
        Nameserver nameserver = Character.toLowerCase(letter) == 'w' ? wire : direct;
        Map<String, Object> answered = nameserver.take((Map<String, Object>) Json.parse(line.substring(2)));
        String state = nameserver.state();
        answered.put("h", hash(state));
        String text = new Json().value(answered).out.toString();
        // The state is JSON already; "st" is the last name but "wire" in the order of names.
        return Character.isUpperCase(letter) ? text.substring(0, text.length() - 1) + ",\"st\":" + state + "}" : text;
    }

    static String hash(String state) throws Exception {
        byte[] digest = MessageDigest.getInstance("SHA-256").digest(state.getBytes(StandardCharsets.UTF_8));
        return HexFormat.of().formatHex(digest, 0, 8);
    }
}
