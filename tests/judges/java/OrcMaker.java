import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.File;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.TimeZone;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hive.common.type.HiveDecimal;
import org.apache.hadoop.hive.ql.exec.vector.BytesColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.ColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.DateColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.Decimal64ColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.DecimalColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.DoubleColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.ListColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.LongColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.MapColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.StructColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.TimestampColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.UnionColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.VectorizedRowBatch;
import org.apache.hadoop.hive.serde2.io.HiveDecimalWritable;
import org.apache.orc.CompressionKind;
import org.apache.orc.EncryptionAlgorithm;
import org.apache.orc.InMemoryKeystore;
import org.apache.orc.OrcFile;
import org.apache.orc.Reader;
import org.apache.orc.StripeInformation;
import org.apache.orc.TypeDescription;
import org.apache.orc.Writer;
import org.apache.orc.impl.SerializationUtils;

/**
 * Writes an ORC file with Java's own writer from a description in JSON: "schema", "rows" in the form of
 * judges/values.py, and the options of {@code judges.java_files.Options}.
 *
 * <p>With "acid" the footer gets the three hive.acid keys; the key index needs the stripes, so the file is made twice.
 */
final class OrcMaker {
  private final JsonNode spec;
  private final Path path;
  private final TypeDescription schema;
  private final boolean proleptic;
  private final TimeZone zone;

  private OrcMaker(JsonNode spec, String path) {
    this.spec = spec;
    this.path = new Path(new File(path).toURI());
    schema = TypeDescription.fromString(spec.get("schema").asText());
    proleptic = spec.get("proleptic").asBoolean();
    zone = TimeZone.getTimeZone(spec.get("timezone").asText());
  }

  static List<String> write(Configuration base, String specFile, String path) throws Exception {
    OrcMaker maker = new OrcMaker(new ObjectMapper().readTree(new File(specFile)), path);
    TimeZone before = TimeZone.getDefault();
    TimeZone.setDefault(maker.zone);
    try {
      maker.write(base, null);
      if (maker.spec.get("acid").asBoolean()) {
        maker.write(base, maker.lastKeys(base));
      }
    } finally {
      TimeZone.setDefault(before);
    }
    return List.of();
  }

  private String lastKeys(Configuration base) throws Exception {
    StringBuilder keys = new StringBuilder();
    try (Reader reader = OrcFile.createReader(path, OrcFile.readerOptions(base))) {
      int rows = 0;
      for (StripeInformation stripe : reader.getStripes()) {
        rows += (int) stripe.getNumberOfRows();
        JsonNode last = spec.get("rows").get(rows - 1);
        keys.append(last.get(1).asLong()).append(',').append(last.get(2).asLong()).append(',');
        keys.append(last.get(3).asLong()).append(';');
      }
    }
    return keys.toString();
  }

  private OrcFile.WriterOptions options(Configuration base) throws Exception {
    Configuration conf = new Configuration(base);
    spec.get("conf").properties().forEach(entry -> conf.set(entry.getKey(), entry.getValue().asText()));
    boolean old = spec.get("version").asText().equals("0.11");
    OrcFile.WriterOptions options =
        OrcFile.writerOptions(conf)
            .setSchema(schema)
            .overwrite(true)
            .version(old ? OrcFile.Version.V_0_11 : OrcFile.Version.V_0_12)
            .compress(CompressionKind.valueOf(spec.get("compression").asText().toUpperCase()))
            .rowIndexStride(spec.get("stride").asInt())
            .stripeSize(spec.get("stripe_size").asLong())
            .bufferSize(spec.get("block").asInt())
            .bloomFilterColumns(spec.get("bloom").asText())
            .bloomFilterVersion(OrcFile.BloomFilterVersion.fromString(spec.get("bloom_version").asText()))
            .setProlepticGregorian(proleptic);
    if (spec.get("enforce").asBoolean()) {
      options.enforceBufferSize();
    }
    if (!spec.get("encrypt").asText().isEmpty()) {
      InMemoryKeystore keys = new InMemoryKeystore();
      keys.addKey("key", EncryptionAlgorithm.AES_CTR_128, new byte[16]);
      options.setKeyProvider(keys).encrypt("key:" + spec.get("encrypt").asText());
    }
    return options;
  }

  private void write(Configuration base, String lastKeys) throws Exception {
    boolean narrow = spec.get("decimal64").asBoolean();
    TypeDescription.RowBatchVersion form =
        narrow ? TypeDescription.RowBatchVersion.USE_DECIMAL64 : TypeDescription.RowBatchVersion.ORIGINAL;
    long[] events = new long[3];
    try (Writer writer = OrcFile.createWriter(path, options(base))) {
      VectorizedRowBatch batch = schema.createRowBatch(form, VectorizedRowBatch.DEFAULT_SIZE);
      for (JsonNode row : spec.get("rows")) {
        for (int c = 0; c < batch.cols.length; c++) {
          set(batch.cols[c], schema.getChildren().get(c), batch.size, row.get(c));
        }
        if (lastKeys != null) {
          events[row.get(0).asInt()]++;
        }
        if (++batch.size == batch.getMaxSize()) {
          writer.addRowBatch(batch);
          batch.reset();
        }
      }
      if (batch.size > 0) {
        writer.addRowBatch(batch);
      }
      if (lastKeys != null) {
        metadata(writer, "hive.acid.version", "2");
        metadata(writer, "hive.acid.stats", events[0] + "," + events[1] + "," + events[2]);
        metadata(writer, "hive.acid.key.index", lastKeys);
      }
    }
  }

  private static void metadata(Writer writer, String key, String value) {
    writer.addUserMetadata(key, StandardCharsets.UTF_8.encode(value));
  }

  private void set(ColumnVector vector, TypeDescription type, int at, JsonNode value) {
    if (value.isNull()) {
      vector.noNulls = false;
      vector.isNull[at] = true;
      return;
    }
    vector.isNull[at] = false;
    switch (type.getCategory()) {
      case BOOLEAN:
        ((LongColumnVector) vector).vector[at] = value.asBoolean() ? 1 : 0;
        break;
      case DATE:
        ((DateColumnVector) vector).setUsingProlepticCalendar(proleptic);
        ((LongColumnVector) vector).vector[at] = Long.parseLong(rest(value));
        break;
      case FLOAT:
      case DOUBLE:
        ((DoubleColumnVector) vector).vector[at] = Double.longBitsToDouble(Long.parseUnsignedLong(rest(value), 16));
        break;
      case STRING:
      case CHAR:
      case VARCHAR:
      case BINARY:
        ((BytesColumnVector) vector).setVal(at, bytes(value.asText()));
        break;
      case DECIMAL:
        decimal(vector, type, at, HiveDecimal.create(rest(value)));
        break;
      case TIMESTAMP:
      case TIMESTAMP_INSTANT:
        timestamp((TimestampColumnVector) vector, type, at, rest(value).split(":"));
        break;
      case BYTE:
      case SHORT:
      case INT:
      case LONG:
        ((LongColumnVector) vector).vector[at] = value.asLong();
        break;
      default:
        nested(vector, type, at, value);
    }
  }

  private static String rest(JsonNode value) {
    return value.asText().substring(2);
  }

  private static byte[] bytes(String text) {
    if (text.startsWith("s:")) {
      return text.substring(2).getBytes(StandardCharsets.UTF_8);
    }
    byte[] found = new byte[(text.length() - 2) / 2];
    for (int i = 0; i < found.length; i++) {
      found[i] = (byte) Integer.parseInt(text.substring(2 + 2 * i, 4 + 2 * i), 16);
    }
    return found;
  }

  private static void decimal(ColumnVector vector, TypeDescription type, int at, HiveDecimal value) {
    if (vector instanceof Decimal64ColumnVector) {
      ((LongColumnVector) vector).vector[at] = new HiveDecimalWritable(value).serialize64(type.getScale());
    } else {
      ((DecimalColumnVector) vector).set(at, value);
    }
  }

  /** The wall clock of the writer's zone as if it were UTC, which is what readers in any zone show. */
  private void timestamp(TimestampColumnVector vector, TypeDescription type, int at, String[] parts) {
    int nanos = Integer.parseInt(parts[1]);
    long millis = Long.parseLong(parts[0]) * 1000 + nanos / 1_000_000;
    boolean local = type.getCategory() == TypeDescription.Category.TIMESTAMP;
    vector.setUsingProlepticCalendar(proleptic);
    vector.time[at] = local ? SerializationUtils.convertFromUtc(zone, millis) : millis;
    vector.nanos[at] = nanos;
  }

  private void nested(ColumnVector vector, TypeDescription type, int at, JsonNode value) {
    List<TypeDescription> children = type.getChildren();
    switch (type.getCategory()) {
      case LIST:
        ListColumnVector list = (ListColumnVector) vector;
        int first = list.childCount;
        list.offsets[at] = first;
        list.lengths[at] = value.size();
        list.childCount += value.size();
        list.child.ensureSize(list.childCount, true);
        for (int i = 0; i < value.size(); i++) {
          set(list.child, children.get(0), first + i, value.get(i));
        }
        break;
      case MAP:
        MapColumnVector map = (MapColumnVector) vector;
        int start = map.childCount;
        map.offsets[at] = start;
        map.lengths[at] = value.size();
        map.childCount += value.size();
        map.keys.ensureSize(map.childCount, true);
        map.values.ensureSize(map.childCount, true);
        for (int i = 0; i < value.size(); i++) {
          set(map.keys, children.get(0), start + i, value.get(i).get(0));
          set(map.values, children.get(1), start + i, value.get(i).get(1));
        }
        break;
      case STRUCT:
        ColumnVector[] fields = ((StructColumnVector) vector).fields;
        for (int i = 0; i < fields.length; i++) {
          set(fields[i], children.get(i), at, value.get(i));
        }
        break;
      case UNION:
        UnionColumnVector union = (UnionColumnVector) vector;
        int tag = value.get(1).asInt();
        union.tags[at] = tag;
        set(union.fields[tag], children.get(tag), at, value.get(2));
        break;
      default:
        throw new IllegalArgumentException("type " + type);
    }
  }
}
