import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.parquet.HadoopReadOptions;
import org.apache.parquet.ParquetReadOptions;
import org.apache.parquet.column.ParquetProperties;
import org.apache.parquet.column.page.PageReadStore;
import org.apache.parquet.example.data.Group;
import org.apache.parquet.example.data.simple.SimpleGroupFactory;
import org.apache.parquet.example.data.simple.convert.GroupRecordConverter;
import org.apache.parquet.filter2.compat.FilterCompat;
import org.apache.parquet.filter2.predicate.FilterApi;
import org.apache.parquet.filter2.predicate.FilterPredicate;
import org.apache.parquet.hadoop.ParquetFileReader;
import org.apache.parquet.hadoop.ParquetWriter;
import org.apache.parquet.hadoop.example.ExampleParquetWriter;
import org.apache.parquet.hadoop.metadata.CompressionCodecName;
import org.apache.parquet.hadoop.util.HadoopInputFile;
import org.apache.parquet.io.ColumnIOFactory;
import org.apache.parquet.io.MessageColumnIO;
import org.apache.parquet.io.RecordReader;
import org.apache.parquet.io.api.Binary;
import org.apache.parquet.schema.MessageType;
import org.apache.parquet.schema.MessageTypeParser;

/**
 * Reads and writes Parquet files with Java's own library on behalf of the tests.
 *
 * <p>One request per line on standard input, fields separated by tabs: "rows path"; "find path mode column value", mode
 * one of plain, pages, bloom; "splits path bytes"; "write path first count rowsPerGroup rowsPerPage codec version
 * dictionary bloom". The answer is "OK n" and n lines, or "ERR message".
 */
public final class ParquetJudge {
  private static final Configuration CONF = new Configuration();
  private static final MessageType SCHEMA =
      MessageTypeParser.parseMessageType(
          "message row { required int64 id; optional binary name (STRING); optional int96 at;"
              + " optional fixed_len_byte_array(9) price (DECIMAL(20,4));"
              + " optional group tags (LIST) { repeated group list { optional binary element (STRING); } } }");

  public static void main(String[] args) throws Exception {
    PrintStream answers = new PrintStream(new java.io.FileOutputStream(java.io.FileDescriptor.out), false, "UTF-8");
    System.setOut(System.err);
    CONF.set("fs.file.impl", LocalFiles.class.getName());
    BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = requests.readLine(); line != null; line = requests.readLine()) {
      try {
        List<String> found = answer(line.split("\t", -1));
        answers.print("OK\t" + found.size() + "\n");
        for (String text : found) {
          answers.print(text + "\n");
        }
      } catch (Throwable e) {
        answers.print("ERR\t" + (e + "; " + e.getCause()).replaceAll("[\\s]+", " ") + "\n");
      }
      answers.flush();
    }
  }

  private static List<String> answer(String[] fields) throws Exception {
    switch (fields[0]) {
      case "rows":
        return find(fields[1], "plain", null);
      case "find":
        return find(fields[1], fields[2], equal(fields[3], fields[4]));
      case "splits":
        return splits(fields[1], Long.parseLong(fields[2]));
      case "write":
        return write(fields);
      default:
        throw new IllegalArgumentException("no such request: " + fields[0]);
    }
  }

  private static Path path(String name) {
    return new Path(new File(name).toURI());
  }

  private static FilterPredicate equal(String column, String value) {
    if (column.equals("id")) {
      return FilterApi.eq(FilterApi.longColumn(column), Long.parseLong(value));
    }
    return FilterApi.eq(FilterApi.binaryColumn(column), Binary.fromString(value));
  }

  /** First the number of rows that were left to read, then the rows found. */
  private static List<String> find(String name, String mode, FilterPredicate predicate) throws Exception {
    boolean pages = mode.equals("pages");
    ParquetReadOptions.Builder options =
        HadoopReadOptions.builder(CONF)
            .useStatsFilter(false)
            .useDictionaryFilter(false)
            .useColumnIndexFilter(pages)
            .useBloomFilter(mode.equals("bloom"))
            .useRecordFilter(true)
            .usePageChecksumVerification(true);
    FilterCompat.Filter filter = predicate == null ? FilterCompat.NOOP : FilterCompat.get(predicate);
    if (predicate != null) {
      options.withRecordFilter(filter);
    }
    List<String> found = new ArrayList<>();
    try (ParquetFileReader reader =
        ParquetFileReader.open(HadoopInputFile.fromPath(path(name), CONF), options.build())) {
      found.add(String.valueOf(pages ? reader.getFilteredRecordCount() : reader.getRecordCount()));
      MessageType schema = reader.getFooter().getFileMetaData().getSchema();
      MessageColumnIO io = new ColumnIOFactory().getColumnIO(schema);
      while (true) {
        PageReadStore store = pages ? reader.readNextFilteredRowGroup() : reader.readNextRowGroup();
        if (store == null) {
          return found;
        }
        RecordReader<Group> records = io.getRecordReader(store, new GroupRecordConverter(schema), filter);
        for (long i = 0; i < store.getRowCount(); i++) {
          Group row = records.read();
          if (!records.shouldSkipCurrentRecord() && row != null) {
            found.add(row.toString().replace("\n", "; "));
          }
        }
      }
    }
  }

  /** The rows of each split of some bytes, as a job's tasks take them by the middles of row groups. */
  private static List<String> splits(String name, long bytes) throws Exception {
    List<String> found = new ArrayList<>();
    for (long start = 0; start < new File(name).length(); start += bytes) {
      ParquetReadOptions options = HadoopReadOptions.builder(CONF).withRange(start, start + bytes).build();
      try (ParquetFileReader reader = ParquetFileReader.open(HadoopInputFile.fromPath(path(name), CONF), options)) {
        found.add(String.valueOf(reader.getRecordCount()));
      }
    }
    return found;
  }

  /** Row n has the id 10 n, so that other ids between are in range but not there; names count up as well. */
  private static List<String> write(String[] fields) throws Exception {
    int first = Integer.parseInt(fields[2]);
    int count = Integer.parseInt(fields[3]);
    SimpleGroupFactory factory = new SimpleGroupFactory(SCHEMA);
    ExampleParquetWriter.Builder builder =
        ExampleParquetWriter.builder(path(fields[1]))
            .withConf(CONF)
            .withType(SCHEMA)
            .withRowGroupRowCountLimit(Integer.parseInt(fields[4]))
            .withPageRowCountLimit(Integer.parseInt(fields[5]))
            .withCompressionCodec(CompressionCodecName.valueOf(fields[6]))
            .withWriterVersion(ParquetProperties.WriterVersion.valueOf(fields[7]))
            .withDictionaryEncoding(Boolean.parseBoolean(fields[8]));
    if (Boolean.parseBoolean(fields[9])) {
      // a number of values alone would turn them on as well
      builder.withBloomFilterEnabled("id", true).withBloomFilterNDV("id", 1000);
      builder.withBloomFilterEnabled("name", true).withBloomFilterNDV("name", 1000);
    }
    try (ParquetWriter<Group> writer = builder.build()) {
      for (int n = first; n < first + count; n++) {
        writer.write(row(factory.newGroup(), n));
      }
    }
    return new ArrayList<>();
  }

  private static Group row(Group row, int n) {
    row.add("id", 10L * n);
    if (n % 7 != 3) {
      row.add("name", String.format("name %06d", n));
      ByteBuffer at = ByteBuffer.allocate(12).order(ByteOrder.LITTLE_ENDIAN).putLong(n * 1000001L).putInt(2440588 + n);
      row.add("at", Binary.fromConstantByteArray(at.array()));
      row.add("price", Binary.fromConstantByteArray(ByteBuffer.allocate(9).put((byte) -1).putLong(-n - 1L).array()));
    }
    Group tags = row.addGroup("tags");
    for (int i = 0; i < n % 4; i++) {
      Group item = tags.addGroup("list");
      if (i != 1) {
        item.add("element", "tag " + n % 5 + i);
      }
    }
    return row;
  }
}
