package oracle;

import java.util.AbstractMap;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import java.util.function.Function;

/**
 * JSON in both directions. What is written is canonical: no blanks, members of unordered maps sorted by code point,
 * only control characters, quotes and backslashes escaped.
 */
public final class Json {

    static final Comparator<String> BY_CODE_POINT = Json::compareCodePoints;

    /** What is written so far. */
    public final StringBuilder out = new StringBuilder(1 << 12);
    private boolean comma;

    /** JSON that is written already, as a value among others. */
    public record Raw(String text) {
        public static Raw of(Consumer<Json> writer) {
            Json json = new Json();
            writer.accept(json);
            return new Raw(json.out.toString());
        }
    }

    /** Writes a value: Map (sorted), List, String, Number, Boolean, Raw or null. */
    public Json value(Object value) {
        if (value instanceof Map<?, ?> map) {
            return map(map, Json::name, this::value);
        } else if (value instanceof Iterable<?> members) {
            open('[');
            members.forEach(this::value);
            return close(']');
        }
        separate();
        if (value instanceof String text) {
            text(text);
        } else if (value instanceof Raw raw) {
            out.append(raw.text());
        } else {
            out.append(value);
        }
        return this;
    }

    /** Writes a map's members sorted by their names. */
    public <K, V> Json map(Map<K, V> map, Function<? super K, String> nameOf, Consumer<V> writer) {
        List<Map.Entry<String, V>> members = new ArrayList<>(map.size());
        for (Map.Entry<K, V> entry : map.entrySet()) {
            members.add(new AbstractMap.SimpleImmutableEntry<>(nameOf.apply(entry.getKey()), entry.getValue()));
        }
        members.sort(Map.Entry.comparingByKey(BY_CODE_POINT));
        open('{');
        for (Map.Entry<String, V> member : members) {
            key(member.getKey());
            writer.accept(member.getValue());
        }
        return close('}');
    }

    /** Returns a key of a map as the name of a member, where null is a text like any other. */
    public static String name(Object key) {
        return String.valueOf(key);
    }

    public Json open(char bracket) {
        separate();
        out.append(bracket);
        comma = false;
        return this;
    }

    public Json close(char bracket) {
        out.append(bracket);
        comma = true;
        return this;
    }

    public Json key(String name) {
        separate();
        text(name);
        out.append(':');
        comma = false;
        return this;
    }

    private void separate() {
        if (comma) {
            out.append(',');
        }
        comma = true;
    }

    private void text(String text) {
        out.append('"');
        for (int i = 0; i < text.length(); i++) {
            char c = text.charAt(i);
            int escape = "\"\\\b\f\n\r\t".indexOf(c);
            if (escape >= 0) {
                out.append('\\').append("\"\\bfnrt".charAt(escape));
            } else if (c < ' ') {
                out.append(String.format("\\u%04x", (int) c));
            } else {
                out.append(c);
            }
        }
        out.append('"');
    }

    /** Compares as UTF-32 would: surrogates stand above all other characters. */
    private static int compareCodePoints(String one, String other) {
        int length = Math.min(one.length(), other.length());
        for (int i = 0; i < length; i++) {
            char a = one.charAt(i);
            char b = other.charAt(i);
            if (a != b) {
                return Character.isSurrogate(a) == Character.isSurrogate(b) ? a - b : Character.isSurrogate(a) ? 1 : -1;
            }
        }
        return one.length() - other.length();
    }

    /** Returns the value of a JSON text: Map in the order of the text, List, String, Long, Boolean or null. */
    public static Object parse(String text) {
        return new Parser(text).value();
    }

    private static final class Parser {
        private final String text;
        private int at;

        Parser(String text) {
            this.text = text;
        }

        Object value() {
            char c = next();
            switch (c) {
                case '{':
                    return object();
                case '[':
                    return array();
                case '"':
                    return string();
                case 't':
                    at += 3;
                    return Boolean.TRUE;
                case 'f':
                    at += 4;
                    return Boolean.FALSE;
                case 'n':
                    at += 3;
                    return null;
                default:
                    int start = at - 1;
                    while (at < text.length() && text.charAt(at) >= '0' && text.charAt(at) <= '9') {
                        at++;
                    }
                    return Long.valueOf(text.substring(start, at));
            }
        }

        private char next() {
            while (text.charAt(at) <= ' ' || text.charAt(at) == ',' || text.charAt(at) == ':') {
                at++;
            }
            return text.charAt(at++);
        }

        private boolean ends(char bracket) {
            if (next() == bracket) {
                return true;
            }
            at--;
            return false;
        }

        private Map<String, Object> object() {
            Map<String, Object> members = new LinkedHashMap<>();
            while (!ends('}')) {
                at++;
                String name = string();
                members.put(name, value());
            }
            return members;
        }

        private List<Object> array() {
            List<Object> members = new ArrayList<>();
            while (!ends(']')) {
                members.add(value());
            }
            return members;
        }

        private String string() {
            StringBuilder found = new StringBuilder();
            for (char c = text.charAt(at++); c != '"'; c = text.charAt(at++)) {
                if (c != '\\') {
                    found.append(c);
                    continue;
                }
                char escaped = text.charAt(at++);
                int plain = "bfnrt".indexOf(escaped);
                if (escaped == 'u') {
                    found.append((char) Integer.parseInt(text.substring(at, at + 4), 16));
                    at += 4;
                } else {
                    found.append(plain < 0 ? escaped : "\b\f\n\r\t".charAt(plain));
                }
            }
            return found.toString();
        }
    }
}
