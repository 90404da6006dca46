import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.EtagSource;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * Hadoop's own driver for Azure Data Lake Storage on behalf of the tests.
 *
 * <p>One request per line on standard input, fields separated by tabs: "set name value"; "open uri"; "create path
 * overwrite"; "append path" for more of a file that is there; "write base64", "flush" and "close" for what was opened
 * last; "read path offset length", in base 64; "rename source target"; "mkdirs path"; "delete path recursive"; "status
 * path" and "list path", which answer with path, kind, length, permissions, owner and ETag. The answer is "OK n" and n
 * lines, or "ERR class: message".
 */
public final class AbfsJudge {
  private static final Configuration CONF = new Configuration();
  private static FileSystem fs;
  private static FSDataOutputStream out;

  public static void main(String[] args) throws Exception {
    PrintStream answers = new PrintStream(new FileOutputStream(FileDescriptor.out), false, "UTF-8");
    System.setOut(System.err);
    BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = requests.readLine(); line != null; line = requests.readLine()) {
      try {
        List<String> found = answer(line.split("\t", -1));
        answers.print("OK\t" + found.size() + "\n");
        for (String text : found) {
          answers.print(text + "\n");
        }
      } catch (Throwable error) {
        answers.print("ERR\t" + error.toString().replace("\n", " ") + "\n");
      }
      answers.flush();
    }
    System.exit(0); // threads of the driver are left
  }

  private static List<String> answer(String[] asked) throws Exception {
    List<String> found = new ArrayList<>();
    switch (asked[0]) {
      case "set" -> CONF.set(asked[1], asked[2]);
      case "open" -> fs = FileSystem.newInstance(new URI(asked[1]), CONF);
      case "create" -> out = fs.create(new Path(asked[1]), Boolean.parseBoolean(asked[2]));
      case "append" -> out = fs.append(new Path(asked[1]));
      case "write" -> out.write(Base64.getDecoder().decode(asked[1]));
      case "flush" -> out.hflush();
      case "close" -> out.close();
      case "read" -> found.add(read(new Path(asked[1]), Long.parseLong(asked[2]), Integer.parseInt(asked[3])));
      case "rename" -> found.add(Boolean.toString(fs.rename(new Path(asked[1]), new Path(asked[2]))));
      case "mkdirs" -> found.add(Boolean.toString(fs.mkdirs(new Path(asked[1]))));
      case "delete" -> found.add(Boolean.toString(fs.delete(new Path(asked[1]), Boolean.parseBoolean(asked[2]))));
      case "status" -> found.add(told(fs.getFileStatus(new Path(asked[1]))));
      case "list" -> {
        for (FileStatus status : fs.listStatus(new Path(asked[1]))) {
          found.add(told(status));
        }
      }
      default -> throw new IllegalArgumentException(asked[0]);
    }
    return found;
  }

  private static String read(Path path, long offset, int length) throws Exception {
    byte[] data = new byte[length];
    try (FSDataInputStream in = fs.open(path)) {
      in.readFully(offset, data);
    }
    return Base64.getEncoder().encodeToString(data);
  }

  private static String told(FileStatus status) {
    return String.join(
        "\t",
        status.getPath().toUri().getPath(),
        status.isDirectory() ? "directory" : "file",
        Long.toString(status.getLen()),
        status.getPermission().toString(),
        status.getOwner(),
        ((EtagSource) status).getEtag());
  }
}
