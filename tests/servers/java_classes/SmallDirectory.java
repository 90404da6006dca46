import com.unboundid.ldap.listener.InMemoryDirectoryServer;
import com.unboundid.ldap.listener.InMemoryDirectoryServerConfig;
import com.unboundid.ldap.listener.InMemoryListenerConfig;
import java.net.InetAddress;

/** A directory in memory. Arguments: its base, its port, a file with all entries (LDIF). */
public final class SmallDirectory {
  public static void main(String[] arguments) throws Exception {
    InMemoryDirectoryServerConfig config = new InMemoryDirectoryServerConfig(arguments[0]);
    InetAddress here = InetAddress.getByName("127.0.0.1");
    int port = Integer.parseInt(arguments[1]);
    config.setListenerConfigs(InMemoryListenerConfig.createLDAPConfig("ldap", here, port, null));
    InMemoryDirectoryServer server = new InMemoryDirectoryServer(config);
    server.importFromLDIF(true, arguments[2]);
    server.startListening();
  }
}
