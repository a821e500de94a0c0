package contrail;

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * Many commands of mqadmin in one virtual machine. The first argument is a file with a command a line, its words
 * separated by tabs; what command n printed is written to the file n of the directory that is the second argument.
 */
public final class MqAdmin {
    private MqAdmin() {}

    public static void main(String[] args) throws Exception {
        Path directory = Paths.get(args[1]);
        int number = 0;
        for (String line : Files.readAllLines(Paths.get(args[0]))) {
            ByteArrayOutputStream bytes = new ByteArrayOutputStream();
            PrintStream out = new PrintStream(bytes, true, "UTF-8");
            System.setOut(out);
            System.setErr(out);
            FutureTask<Void> task = new FutureTask<>(() -> MQAdminStartup.main0(line.split("\t"), null), null);
            Thread thread = new Thread(task, "mqadmin");
            thread.setDaemon(true);
            thread.start();
            try {
                task.get(30, TimeUnit.SECONDS);
            } catch (Exception error) {
                out.println("mqadmin did not end: " + error);
            }
            out.flush();
            Files.write(directory.resolve(Integer.toString(number++)),
                bytes.toString("UTF-8").getBytes(StandardCharsets.UTF_8));
        }
        Runtime.getRuntime().halt(0);
    }
}
