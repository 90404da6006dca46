import com.sun.net.httpserver.HttpServer;
import java.io.File;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Properties;
import org.apache.hadoop.minikdc.MiniKdc;

/**
 * Hadoop's small KDC; it makes principals while it runs. Arguments: a directory, organisation and domain of the realm,
 * the port of the KDC, the port for requests, the longest life of a ticket in seconds. A request has the path of a
 * keytab in its first line, and then principals, one a line.
 */
public final class SmallKdc {
  public static void main(String[] arguments) throws Exception {
    Properties properties = MiniKdc.createConf();
    properties.setProperty(MiniKdc.ORG_NAME, arguments[1]);
    properties.setProperty(MiniKdc.ORG_DOMAIN, arguments[2]);
    properties.setProperty(MiniKdc.KDC_BIND_ADDRESS, "127.0.0.1");
    properties.setProperty(MiniKdc.KDC_PORT, arguments[3]);
    properties.setProperty(MiniKdc.MAX_TICKET_LIFETIME, arguments[5]);
    properties.setProperty(MiniKdc.MIN_TICKET_LIFETIME, "1");
    MiniKdc kdc = new MiniKdc(properties, new File(arguments[0]));
    kdc.start();

    InetSocketAddress address = new InetSocketAddress(InetAddress.getByName("127.0.0.1"), Integer.parseInt(arguments[4]));
    HttpServer requests = HttpServer.create(address, 0);
    requests.createContext("/", exchange -> {
      String body = new String(exchange.getRequestBody().readAllBytes(), StandardCharsets.UTF_8);
      String answer = "";
      int status = 200;
      try {
        String[] lines = body.split("\n");
        kdc.createPrincipal(new File(lines[0]), Arrays.copyOfRange(lines, 1, lines.length));
      } catch (Exception error) {
        answer = error.toString();
        status = 500;
      }
      byte[] bytes = answer.getBytes(StandardCharsets.UTF_8);
      exchange.sendResponseHeaders(status, bytes.length == 0 ? -1 : bytes.length);
      exchange.getResponseBody().write(bytes);
      exchange.close();
    });
    requests.start();
  }
}
