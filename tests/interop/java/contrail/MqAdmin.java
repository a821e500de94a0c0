package contrail;

import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * Many commands of mqadmin in one virtual machine. Each line of the input is a command, its words separated by tabs;
 * the answer is the number of bytes the command has printed, a line of its own, and then these bytes. The program ends
 * with its input.
 */
public final class MqAdmin {
    private MqAdmin() {}

    public static void main(String[] args) throws Exception {
        PrintStream answers = System.out;
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            byte[] printed = run(line.split("\t"));
            answers.print(printed.length + "\n");
            answers.write(printed);
            answers.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    private static byte[] run(String[] words) throws Exception {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        PrintStream out = new PrintStream(bytes, true, "UTF-8");
        System.setOut(out);
        System.setErr(out);
        FutureTask<Void> task = new FutureTask<>(() -> MQAdminStartup.main0(words, null), null);
        Thread thread = new Thread(task, "mqadmin");
        thread.setDaemon(true);
        thread.start();
        try {
            task.get(30, TimeUnit.SECONDS);
        } catch (Exception error) {
            out.println("mqadmin did not end: " + error);
        }
        out.flush();
        return bytes.toByteArray();
    }
}
