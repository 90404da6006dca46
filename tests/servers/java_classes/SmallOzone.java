import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import org.apache.hadoop.hdds.conf.OzoneConfiguration;
import org.apache.hadoop.ozone.MiniOzoneCluster;
import org.apache.hadoop.ozone.client.BucketArgs;
import org.apache.hadoop.ozone.client.OzoneClient;
import org.apache.hadoop.ozone.om.helpers.BucketLayout;
import org.apache.ozone.test.GenericTestUtils.PortAllocator;

/** Ozone in one process: its manager, the manager of containers and one data node. */
public final class SmallOzone {
  private static final String VOLUME = "tests";

  /**
   * Starts it, makes a bucket of each layout, and writes the address of the manager into a file.
   *
   * <p>Arguments: that file, and the first of the ports that it takes one after the other.
   */
  public static void main(String[] arguments) {
    try {
      run(arguments);
    } catch (Throwable error) {
      error.printStackTrace();
      Runtime.getRuntime().halt(1); // other threads of it would go on
    }
  }

  private static void run(String[] arguments) throws Exception {
    Path told = Path.of(arguments[0]);
    PortAllocator.NEXT_PORT.set(Integer.parseInt(arguments[1]));
    OzoneConfiguration configuration = new OzoneConfiguration();
    MiniOzoneCluster cluster = MiniOzoneCluster.newBuilder(configuration).setNumDatanodes(1).build();
    cluster.waitForClusterToBeReady();
    try (OzoneClient client = cluster.newClient()) {
      client.getObjectStore().createVolume(VOLUME);
      for (Map.Entry<String, BucketLayout> bucket : Map.of(
          "fso", BucketLayout.FILE_SYSTEM_OPTIMIZED,
          "legacy", BucketLayout.LEGACY,
          "obs", BucketLayout.OBJECT_STORE).entrySet()) {
        BucketArgs made = BucketArgs.newBuilder().setBucketLayout(bucket.getValue()).build();
        client.getObjectStore().getVolume(VOLUME).createBucket(bucket.getKey(), made);
      }
    }
    Path half = told.resolveSibling(told.getFileName() + ".half");
    Files.writeString(half, cluster.getConf().get("ozone.om.address"));
    Files.move(half, told);
    Thread.currentThread().join();
  }
}
