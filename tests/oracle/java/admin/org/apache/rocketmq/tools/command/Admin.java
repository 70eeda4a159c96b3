package org.apache.rocketmq.tools.command;

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import lines.LineServer;

/** mqadmin, command after command in one process. A line is a command's words with tabs between them; so are the lines that it prints. */
public final class Admin {
    private Admin() {
    }

    public static void main(String[] arguments) throws Exception {
        LineServer.serve(() -> Admin::answer);
    }

    private static String answer(String line) throws Exception {
        ByteArrayOutputStream said = new ByteArrayOutputStream();
        try (PrintStream out = new PrintStream(said, true, StandardCharsets.UTF_8)) {
            System.setOut(out);
            MQAdminStartup.SUB_COMMANDS.clear(); // what ran keeps the client that it has closed
            MQAdminStartup.main(line.split("\t"));
        } finally {
            System.setOut(System.err);
        }
        return said.toString(StandardCharsets.UTF_8).replace('\n', '\t');
    }
}
