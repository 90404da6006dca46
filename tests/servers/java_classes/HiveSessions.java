import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hadoop.hive.metastore.HiveMetaStoreClient;
import org.apache.hadoop.hive.metastore.api.FieldSchema;
import org.apache.hadoop.hive.ql.DriverFactory;
import org.apache.hadoop.hive.ql.IDriver;
import org.apache.hadoop.hive.ql.session.SessionState;

/**
 * SQL on a port of 127.0.0.1, each connection a session of Hive, where there is no release of HiveServer2.
 *
 * <p>A request is a line: "run STATEMENT" runs one to its end and leaves its rows to be fetched, "fetch N" gives at most
 * N rows of it, "close" ends it, "set KEY VALUE" changes the session. A text is in Base64. Answers are lines, too:
 * "column NAME TYPE", "row TEXT", and at last "done" or "failed TEXT".
 */
public class HiveSessions {
  private static final String[] CAPABILITIES =
      ("EXTWRITE,EXTREAD,HIVEBUCKET2,HIVEFULLACIDREAD,HIVEFULLACIDWRITE,HIVECACHEINVALIDATE,HIVEMANAGESTATS,"
              + "HIVEMANAGEDINSERTWRITE,HIVEMANAGEDINSERTREAD,HIVESQL,HIVEMQT,HIVEONLYMQTWRITE")
          .split(",");

  public static void main(String[] arguments) throws IOException {
    HiveMetaStoreClient.setProcessorIdentifier("tests");
    HiveMetaStoreClient.setProcessorCapabilities(CAPABILITIES);
    try (ServerSocket server =
        new ServerSocket(Integer.parseInt(arguments[0]), 50, InetAddress.getByName("127.0.0.1"))) {
      while (true) {
        Socket client = server.accept();
        new Thread(() -> serve(client)).start();
      }
    }
  }

  /** For a query that has to go on until a file is there: reflect('HiveSessions', 'waitFor', FILE). */
  public static String waitFor(String file) throws InterruptedException {
    while (!Files.exists(Paths.get(file))) {
      Thread.sleep(20);
    }
    return "there";
  }

  private static void serve(Socket client) {
    try (client;
        BufferedReader in =
            new BufferedReader(new InputStreamReader(client.getInputStream(), StandardCharsets.US_ASCII));
        PrintStream out = new PrintStream(client.getOutputStream(), false, StandardCharsets.US_ASCII)) {
      SessionState session = SessionState.start(new HiveConf(SessionState.class));
      IDriver driver = null;
      try {
        for (String line = in.readLine(); line != null; line = in.readLine()) {
          String[] words = line.split(" ");
          try {
            if (words[0].equals("set")) {
              session.getConf().set(decoded(words[1]), decoded(words[2]));
            } else if (words[0].equals("fetch")) {
              fetch(driver, Integer.parseInt(words[1]), out);
            } else {
              if (driver != null) {
                driver.close();
                driver.destroy();
                driver = null;
              }
              if (words[0].equals("run")) {
                driver = DriverFactory.newDriver(session.getConf());
                run(driver, decoded(words[1]), out);
              }
            }
            out.println("done");
          } catch (Throwable error) {
            error.printStackTrace();
            out.println("failed " + encoded(String.valueOf(error.getMessage())));
          }
          out.flush();
        }
      } finally {
        if (driver != null) {
          driver.close();
          driver.destroy();
        }
        session.close();
      }
    } catch (IOException error) {
      error.printStackTrace();
    }
  }

  private static void run(IDriver driver, String statement, PrintStream out) throws Exception {
    driver.run(statement);
    if (driver.getSchema() != null && driver.getSchema().getFieldSchemas() != null) {
      for (FieldSchema field : driver.getSchema().getFieldSchemas()) {
        out.println("column " + encoded(field.getName()) + " " + encoded(field.getType()));
      }
    }
  }

  private static void fetch(IDriver driver, int most, PrintStream out) throws Exception {
    int left = most;
    while (left > 0) {
      driver.setMaxRows(left);
      List<String> rows = new ArrayList<>();
      if (!driver.getResults(rows)) {
        return;
      }
      for (String row : rows) {
        out.println("row " + encoded(row));
      }
      left -= rows.size();
    }
  }

  private static String encoded(String text) {
    return Base64.getEncoder().encodeToString(text.getBytes(StandardCharsets.UTF_8));
  }

  private static String decoded(String text) {
    return new String(Base64.getDecoder().decode(text), StandardCharsets.UTF_8);
  }
}
