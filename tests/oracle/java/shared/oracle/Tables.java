package oracle;

import java.lang.reflect.Field;
import java.util.HashMap;
import java.util.Map;

/** Looks into objects of the name server, whose tables are private. */
public final class Tables {

    private static final Map<String, Field> FIELDS = new HashMap<>();

    private Tables() {
    }

    /** Returns the value of a private field. */
    @SuppressWarnings("unchecked")
    public static <T> T field(Object owner, String name) {
        try {
            return (T) FIELDS.computeIfAbsent(owner.getClass().getName() + "." + name, key -> open(owner, name)).get(owner);
        } catch (IllegalAccessException e) {
            throw new IllegalStateException(e);
        }
    }

    /** Sets a private field. */
    public static void set(Object owner, String name, Object value) {
        try {
            open(owner, name).set(owner, value);
        } catch (IllegalAccessException e) {
            throw new IllegalStateException(e);
        }
    }

    /** Returns a map with two members, null values allowed. */
    public static Map<String, Object> pair(String name, Object value, String otherName, Object otherValue) {
        Map<String, Object> pair = new HashMap<>();
        pair.put(name, value);
        pair.put(otherName, otherValue);
        return pair;
    }

    private static Field open(Object owner, String name) {
        try {
            Field field = owner.getClass().getDeclaredField(name);
            field.setAccessible(true);
            return field;
        } catch (NoSuchFieldException e) {
            throw new IllegalStateException(e);
        }
    }
}
