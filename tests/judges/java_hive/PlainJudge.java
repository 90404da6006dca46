import java.io.BufferedReader;
import java.io.File;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hadoop.hive.serde2.AbstractSerDe;
import org.apache.hadoop.hive.serde2.ColumnProjectionUtils;
import org.apache.hadoop.hive.serde2.objectinspector.ObjectInspector;
import org.apache.hadoop.io.Writable;
import org.apache.hadoop.mapred.FileInputFormat;
import org.apache.hadoop.mapred.InputFormat;
import org.apache.hadoop.mapred.InputSplit;
import org.apache.hadoop.mapred.JobConf;
import org.apache.hadoop.mapred.JobConfigurable;
import org.apache.hadoop.mapred.RecordReader;
import org.apache.hadoop.mapred.Reporter;

/**
 * Reads files of tables that are not ORC with Hive's own input formats and SerDes, row by row, on behalf of the tests.
 *
 * <p>One request per line on standard input, fields separated by tabs: path, column names, column types, input format, SerDe,
 * splits, and any number of properties of the table "key=value". The answer is "OK n" and n lines, or "ERR message". A line is
 * the JSON array of the values, which have the form of judges/values.py.
 */
public final class PlainJudge {
  public static void main(String[] args) throws Exception {
    PrintStream answers = new PrintStream(new FileOutputStream(FileDescriptor.out), false, "UTF-8");
    System.setOut(System.err);
    BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = requests.readLine(); line != null; line = requests.readLine()) {
      try {
        List<String> found = rows(line.split("\t", -1));
        answers.print("OK\t" + found.size() + "\n");
        for (String text : found) {
          answers.print(text + "\n");
        }
      } catch (Throwable e) {
        answers.print("ERR\t" + HiveJudge.describe(e) + "\n");
      }
      answers.flush();
    }
  }

  @SuppressWarnings("unchecked")
  private static List<String> rows(String[] fields) throws Exception {
    JobConf conf = new JobConf(new HiveConf());
    conf.set("fs.defaultFS", "file:///");
    conf.set("fs.file.impl", "org.apache.hadoop.fs.LocalFileSystem");
    Properties table = new Properties();
    table.setProperty("columns", fields[1]);
    table.setProperty("columns.types", fields[2]);
    for (int i = 6; i < fields.length; i++) {
      int at = fields[i].indexOf('=');
      table.setProperty(fields[i].substring(0, at), unescaped(fields[i].substring(at + 1)));
    }
    for (String name : table.stringPropertyNames()) {
      conf.set(name, table.getProperty(name)); // as Utilities.copyTablePropertiesToConf
    }
    conf.set(ColumnProjectionUtils.READ_ALL_COLUMNS, "true");
    FileInputFormat.setInputPaths(conf, new Path(new File(fields[0]).toURI()));
    AbstractSerDe serde = (AbstractSerDe) Class.forName(fields[4]).getDeclaredConstructor().newInstance();
    serde.initialize(conf, table, null);
    InputFormat<Writable, Writable> format =
        (InputFormat<Writable, Writable>) Class.forName(fields[3]).getDeclaredConstructor().newInstance();
    if (format instanceof JobConfigurable) {
      ((JobConfigurable) format).configure(conf);
    }
    ObjectInspector inspector = serde.getObjectInspector();
    List<String> found = new ArrayList<>();
    for (InputSplit split : format.getSplits(conf, Integer.parseInt(fields[5]))) {
      RecordReader<Writable, Writable> reader = format.getRecordReader(split, conf, Reporter.NULL);
      Writable key = reader.createKey();
      Writable value = reader.createValue();
      while (reader.next(key, value)) {
        StringBuilder out = new StringBuilder();
        HiveJudge.print(out, serde.deserialize(value), inspector);
        found.add(out.toString());
      }
      reader.close();
    }
    return found;
  }

  /** A character as a number in brackets, {9}. */
  private static String unescaped(String text) {
    StringBuilder out = new StringBuilder();
    for (int i = 0; i < text.length(); i++) {
      int end = text.charAt(i) == '{' ? text.indexOf('}', i) : -1;
      if (end < 0) {
        out.append(text.charAt(i));
      } else {
        out.append((char) Integer.parseInt(text.substring(i + 1, end)));
        i = end;
      }
    }
    return out.toString();
  }
}
