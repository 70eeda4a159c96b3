package oracle;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** What one event did beside its result: channels closed, exceptions logged, notifications sent. */
public final class Observed {

    public final List<Object> closed = new ArrayList<>();
    public final List<Object> swallowed = new ArrayList<>();
    public final List<Object> sent = new ArrayList<>();

    void clear() {
        closed.clear();
        swallowed.clear();
        sent.clear();
    }

    void addTo(Map<String, Object> res) {
        addTo(res, "closed", closed);
        addTo(res, "swallowed", swallowed);
        addTo(res, "notify", sent);
    }

    private static void addTo(Map<String, Object> res, String name, List<Object> found) {
        if (!found.isEmpty()) {
            res.put(name, new ArrayList<>(found));
        }
    }
}
