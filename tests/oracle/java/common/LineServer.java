import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.FileDescriptor;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/** Answers lines from standard input: all lines up to an empty one are read, then each gets one line of answer. */
public final class LineServer {

    /** What one line of input is answered with; the answer may not hold a line break. */
    public interface Handler {
        String answer(String line) throws Exception;
    }

    private LineServer() {
    }

    /** Serves until the input ends. An exception of the handler ends the process: its stack trace is the message. */
    public static void serve(Handler handler) throws Exception {
        BufferedReader in = new BufferedReader(
            new InputStreamReader(new FileInputStream(FileDescriptor.in), StandardCharsets.UTF_8), 1 << 16);
        BufferedWriter out = new BufferedWriter(
            new OutputStreamWriter(new FileOutputStream(FileDescriptor.out), StandardCharsets.UTF_8), 1 << 16);
        System.setOut(System.err); // libraries that print must not mix with the answers
        for (List<String> lines = batch(in); lines != null; lines = batch(in)) {
            for (String line : lines) {
                out.write(handler.answer(line));
                out.write('\n');
            }
            out.flush();
        }
        System.exit(0); // whatever threads the classes under test have started
    }

    private static List<String> batch(BufferedReader in) throws IOException {
        List<String> lines = new ArrayList<>();
        String line = in.readLine();
        while (line != null && !line.isEmpty()) {
            lines.add(line);
            line = in.readLine();
        }
        return line == null ? null : lines;
    }
}
