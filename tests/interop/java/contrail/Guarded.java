package contrail;

import java.util.Arrays;

/** Runs another main class until standard input ends: a server never outlives the test run. */
public final class Guarded {
    private Guarded() {}

    public static void main(String[] args) throws Exception {
        Thread guard = new Thread(Guarded::exitAtEndOfInput, "guard");
        guard.setDaemon(true);
        guard.start();
        Class.forName(args[0])
            .getMethod("main", String[].class)
            .invoke(null, (Object) Arrays.copyOfRange(args, 1, args.length));
    }

    private static void exitAtEndOfInput() {
        try {
            while (System.in.read() >= 0) {
            }
        } catch (Exception ignored) {
            // A broken pipe is an end as well.
        }
        System.exit(0);
    }
}
