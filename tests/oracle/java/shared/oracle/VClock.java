package oracle;

/** The time that the name server sees: that of the event at hand. */
public final class VClock {

    private static volatile long now;

    private VClock() {
    }

    /** Returns the event's time in milliseconds since the epoch. */
    public static long currentTimeMillis() {
        return now;
    }

    static void set(long millis) {
        now = millis;
    }
}
