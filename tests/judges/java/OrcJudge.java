import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.sql.Date;
import java.sql.Timestamp;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.TimeZone;
import java.util.TreeSet;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hive.common.type.HiveDecimal;
import org.apache.hadoop.hive.ql.exec.vector.BytesColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.ColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.DecimalColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.DoubleColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.ListColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.LongColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.MapColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.StructColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.TimestampColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.UnionColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.VectorizedRowBatch;
import org.apache.hadoop.hive.ql.io.sarg.PredicateLeaf;
import org.apache.hadoop.hive.ql.io.sarg.SearchArgument;
import org.apache.hadoop.hive.ql.io.sarg.SearchArgumentFactory;
import org.apache.hadoop.hive.serde2.io.HiveDecimalWritable;
import org.apache.orc.OrcFile;
import org.apache.orc.Reader;
import org.apache.orc.RecordReader;
import org.apache.orc.StripeInformation;
import org.apache.orc.TypeDescription;

/**
 * Reads ORC files with Java's own reader on behalf of the tests.
 *
 * <p>One request per line on standard input, fields separated by tabs: "dump path", "seek path randomRows bloomColumn", "sarg path
 * maxGroups columns", "lookup path column text", "dumplocal path zone", "dumpas path schema", and "write spec path" of OrcMaker. The answer is "OK n" and n lines, or
 * "ERR message". JSON values have the form of judges/values.py.
 */
public final class OrcJudge {
  private static final Configuration CONF = new Configuration();

  private static final HexFormat HEX = HexFormat.of();
  private static final int SPAN = 64;

  public static void main(String[] args) throws Exception {
    PrintStream answers = new PrintStream(new java.io.FileOutputStream(java.io.FileDescriptor.out), false, "UTF-8");
    System.setOut(System.err);
    CONF.set("fs.file.impl", LocalFiles.class.getName());
    BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = requests.readLine(); line != null; line = requests.readLine()) {
      String[] fields = line.split("\t", -1);
      try {
        List<String> found = answer(fields);
        answers.print("OK\t" + found.size() + "\n");
        for (String text : found) {
          answers.print(text + "\n");
        }
      } catch (Throwable e) {
        answers.print("ERR\t" + describe(e) + "\n");
      }
      answers.flush();
    }
  }

  private static List<String> answer(String[] fields) throws Exception {
    switch (fields[0]) {
      case "dump":
        return dump(fields[1]);
      case "dumpas":
        return dumpAs(fields[1], TypeDescription.fromString(fields[2]));
      case "dumplocal":
        return dumpLocal(fields[1], fields[2]);
      case "lookup":
        return new Sargs(fields[1], 0, fields[2]).lookup(fields[3]);
      case "write":
        return OrcMaker.write(CONF, fields[1], fields[2]);
      case "seek":
        return seek(fields[1], Integer.parseInt(fields[2]), fields[3]);
      case "sarg":
        return new Sargs(fields[1], Integer.parseInt(fields[2]), fields[3]).run();
      default:
        throw new IllegalArgumentException("no such request: " + fields[0]);
    }
  }

  private static String describe(Throwable e) {
    StringBuilder text = new StringBuilder(e.toString());
    for (Throwable c = e.getCause(); c != null; c = c.getCause()) {
      text.append("; ").append(c);
    }
    if (e.getStackTrace().length > 0) {
      text.append(" at ").append(e.getStackTrace()[0]);
    }
    return text.toString().replaceAll("[\\s]+", " ");
  }

  static Reader open(String path) throws Exception {
    Path file = new Path(new File(path).toURI());
    boolean proleptic;
    try (Reader first = OrcFile.createReader(file, OrcFile.readerOptions(CONF))) {
      proleptic = first.writerUsedProlepticGregorian();
    }
    return OrcFile.createReader(
        file, OrcFile.readerOptions(CONF).useUTCTimestamp(true).convertToProlepticGregorian(proleptic));
  }

  /** What a reader in some zone gets: milliseconds since 1970 of the wall clock there. */
  private static List<String> dumpLocal(String path, String zone) throws Exception {
    TimeZone before = TimeZone.getDefault();
    TimeZone.setDefault(TimeZone.getTimeZone(zone));
    try (Reader reader = OrcFile.createReader(new Path(new File(path).toURI()), OrcFile.readerOptions(CONF))) {
      return dump(reader, reader.getSchema());
    } finally {
      TimeZone.setDefault(before);
    }
  }

  private static List<String> dump(String path) throws Exception {
    try (Reader reader = open(path)) {
      return dump(reader, reader.getSchema());
    }
  }

  /** What a reader gets whose table has these columns now, by ORC's schema evolution. */
  private static List<String> dumpAs(String path, TypeDescription schema) throws Exception {
    try (Reader reader = open(path)) {
      return dump(reader, schema);
    }
  }

  private static List<String> dump(Reader reader, TypeDescription schema) throws Exception {
    List<String> lines = new ArrayList<>();
    try (RecordReader rows = reader.rows(reader.options().schema(schema))) {
      VectorizedRowBatch batch = schema.createRowBatch();
      while (rows.nextBatch(batch)) {
        for (int i = 0; i < batch.size; i++) {
          lines.add(row(batch, schema, i));
        }
      }
    }
    return lines;
  }

  private static String row(VectorizedRowBatch batch, TypeDescription schema, int at) {
    StringBuilder out = new StringBuilder();
    if (schema.getCategory() != TypeDescription.Category.STRUCT) {
      value(out, batch.cols[0], schema, at);
      return out.toString();
    }
    out.append('[');
    for (int c = 0; c < batch.cols.length; c++) {
      if (c > 0) {
        out.append(',');
      }
      value(out, batch.cols[c], schema.getChildren().get(c), at);
    }
    return out.append(']').toString();
  }

  private static void value(StringBuilder out, ColumnVector vector, TypeDescription type, int row) {
    int at = vector.isRepeating ? 0 : row;
    if (!vector.noNulls && vector.isNull[at]) {
      out.append("null");
      return;
    }
    switch (type.getCategory()) {
      case BOOLEAN:
        out.append(((LongColumnVector) vector).vector[at] != 0);
        break;
      case BYTE:
      case SHORT:
      case INT:
      case LONG:
        out.append(((LongColumnVector) vector).vector[at]);
        break;
      case DATE:
        out.append("\"d:").append(((LongColumnVector) vector).vector[at]).append('"');
        break;
      case FLOAT:
      case DOUBLE:
        long bits = Double.doubleToRawLongBits(((DoubleColumnVector) vector).vector[at]);
        out.append("\"f:").append(HEX.toHexDigits(bits)).append('"');
        break;
      case STRING:
      case CHAR:
      case VARCHAR:
        text(out, bytes((BytesColumnVector) vector, at));
        break;
      case BINARY:
        out.append("\"b:").append(HEX.formatHex(bytes((BytesColumnVector) vector, at))).append('"');
        break;
      case DECIMAL:
        out.append("\"n:").append(plain(((DecimalColumnVector) vector).vector[at])).append('"');
        break;
      case TIMESTAMP:
      case TIMESTAMP_INSTANT:
        TimestampColumnVector ts = (TimestampColumnVector) vector;
        out.append("\"t:").append(Math.floorDiv(ts.time[at], 1000L)).append(':').append(ts.nanos[at]).append('"');
        break;
      default:
        nested(out, vector, type, at);
    }
  }

  private static void nested(StringBuilder out, ColumnVector vector, TypeDescription type, int at) {
    List<TypeDescription> children = type.getChildren();
    out.append('[');
    switch (type.getCategory()) {
      case LIST:
        ListColumnVector list = (ListColumnVector) vector;
        for (int i = 0; i < list.lengths[at]; i++) {
          out.append(i > 0 ? "," : "");
          value(out, list.child, children.get(0), (int) list.offsets[at] + i);
        }
        break;
      case MAP:
        MapColumnVector map = (MapColumnVector) vector;
        for (int i = 0; i < map.lengths[at]; i++) {
          out.append(i > 0 ? ",[" : "[");
          value(out, map.keys, children.get(0), (int) map.offsets[at] + i);
          out.append(',');
          value(out, map.values, children.get(1), (int) map.offsets[at] + i);
          out.append(']');
        }
        break;
      case STRUCT:
        ColumnVector[] fields = ((StructColumnVector) vector).fields;
        for (int i = 0; i < fields.length; i++) {
          out.append(i > 0 ? "," : "");
          value(out, fields[i], children.get(i), at);
        }
        break;
      case UNION:
        UnionColumnVector union = (UnionColumnVector) vector;
        out.append("\"u\",").append(union.tags[at]).append(',');
        value(out, union.fields[union.tags[at]], children.get(union.tags[at]), at);
        break;
      default:
        throw new IllegalArgumentException("type " + type);
    }
    out.append(']');
  }

  static byte[] bytes(BytesColumnVector vector, int at) {
    return Arrays.copyOfRange(vector.vector[at], vector.start[at], vector.start[at] + vector.length[at]);
  }

  private static String plain(HiveDecimalWritable value) {
    java.math.BigDecimal number = value.getHiveDecimal().bigDecimalValue();
    return number.signum() == 0 ? "0" : number.stripTrailingZeros().toPlainString();
  }

  private static void text(StringBuilder out, byte[] data) {
    String text;
    try {
      text = StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(data)).toString();
    } catch (CharacterCodingException e) {
      out.append("\"x:").append(HEX.formatHex(data)).append('"');
      return;
    }
    out.append("\"s:");
    for (int i = 0; i < text.length(); i++) {
      char c = text.charAt(i);
      if (c == '"' || c == '\\') {
        out.append('\\').append(c);
      } else if (c < 32 || c > 126) {
        out.append("\\u").append(HEX.toHexDigits(c));
      } else {
        out.append(c);
      }
    }
    out.append('"');
  }

  static String quoted(String text) {
    StringBuilder out = new StringBuilder();
    text(out, text.getBytes(StandardCharsets.UTF_8));
    return out.toString().replaceFirst("s:", "");
  }

  /** First rows of all row groups (of all stripes, if the file has no row index). */
  static TreeSet<Long> groupStarts(Reader reader) {
    TreeSet<Long> starts = new TreeSet<>();
    long first = 0;
    int stride = reader.getRowIndexStride();
    for (StripeInformation stripe : reader.getStripes()) {
      for (long r = 0; r < stripe.getNumberOfRows(); r += stride > 0 ? stride : stripe.getNumberOfRows()) {
        starts.add(first + r);
      }
      first += stripe.getNumberOfRows();
    }
    return starts;
  }

  private static List<String> seek(String path, int randomRows, String bloomColumn) throws Exception {
    List<String> problems = new ArrayList<>();
    try (Reader reader = open(path)) {
      if (reader.getRowIndexStride() == 0) {
        throw new IllegalArgumentException("no row index in " + path);
      }
      TypeDescription schema = reader.getSchema();
      long total = reader.getNumberOfRows();
      List<String> all = dump(path);
      if (all.size() != total) {
        problems.add("read " + all.size() + " rows of " + total);
        return problems;
      }
      Set<Long> targets = new TreeSet<>();
      for (long start : groupStarts(reader)) {
        for (long r = start - 1; r <= start + 1; r++) {
          if (r >= 0 && r < total) {
            targets.add(r);
          }
        }
      }
      Random random = new Random(42);
      for (int i = 0; i < randomRows && total > 0; i++) {
        targets.add((long) (random.nextDouble() * total));
      }
      RecordReader rows = seekable(reader, bloomColumn);
      VectorizedRowBatch batch = schema.createRowBatch(SPAN);
      for (long target : targets) {
        try {
          String problem = seekOne(rows, schema, batch, target, all);
          if (problem != null) {
            problems.add(problem);
          }
        } catch (Exception e) {
          problems.add("row " + target + ": " + describe(e));
          rows.close();
          rows = seekable(reader, bloomColumn);
        }
      }
      rows.close();
      problems.add(0, String.valueOf(targets.size()));
    }
    return problems;
  }

  /**
   * A reader of all rows. In files with bloom filters Java can seek only under a search argument, in its own files too,
   * so there it gets one on some column that is true of every row.
   */
  private static RecordReader seekable(Reader reader, String column) throws Exception {
    if (column.isEmpty()) {
      return reader.rows();
    }
    PredicateLeaf.Type leaf = PredicateLeaf.Type.LONG;
    SearchArgument.Builder any = SearchArgumentFactory.newBuilder().startOr();
    any.isNull(column, leaf).startNot().isNull(column, leaf).end().end();
    return reader.rows(
        reader.options().searchArgument(any.build(), new String[] {column}).allowSARGToFilter(false));
  }

  /**
   * A row with zeros of one sign: a batch whose values are equal by ==, as 0.0 and -0.0 are, reads as its first one
   * repeated, so that the sign may depend on where a batch begins.
   */
  private static String oneZero(String row) {
    return row.replace("f:8000000000000000", "f:0000000000000000");
  }

  private static String seekOne(
      RecordReader rows, TypeDescription schema, VectorizedRowBatch batch, long target, List<String> all)
      throws Exception {
    rows.seekToRow(target);
    if (!rows.nextBatch(batch)) {
      return "row " + target + ": nothing read after the seek";
    }
    for (int i = 0; i < batch.size; i++) {
      String found = row(batch, schema, i);
      String expected = all.get((int) target + i);
      if (!oneZero(found).equals(oneZero(expected))) {
        return "row " + target + " + " + i + ": " + found + ", should be " + expected;
      }
    }
    return null;
  }

  /** Search arguments at the extremes of row groups, one file. */
  private static final class Sargs {
    /** The column of a row whose parent struct is null: no statistics count it, so no predicate may ask for it. */
    private static final Object ABSENT = new Object();

    private final String path;
    private final int maxGroups;
    private final Set<String> wanted;
    private final List<String> found = new ArrayList<>();
    private Reader reader;
    private TypeDescription schema;
    private TypeDescription parent;
    private int acid;
    /** For all reads of the file: making one takes longer than reading a small file. */
    private VectorizedRowBatch batch;

    Sargs(String path, int maxGroups, String columns) {
      this.path = path;
      this.maxGroups = maxGroups;
      this.wanted = columns.isEmpty() ? null : new HashSet<>(Arrays.asList(columns.split(",")));
    }

    /** The number of rows left by a search for a value in the one wanted column, and how many of them have it. */
    List<String> lookup(String text) throws Exception {
      try (Reader opened = open(path)) {
        begin(opened);
        String name = wanted.iterator().next();
        int index = parent.getFieldNames().indexOf(name);
        TypeDescription type = parent.getChildren().get(index);
        List<Object> left = new ArrayList<>();
        Query query = new Query(leaf(type), "=", literal(leaf(type), text));
        read(index, type, query.sarg(name), name, left);
        return List.of(left.size() + "\t" + left.stream().filter(query::matches).count());
      }
    }

    /** A value as {@link #object} has it, from the form of judges/values.py without its first two characters. */
    private static Object literal(PredicateLeaf.Type leaf, String text) {
      switch (leaf) {
        case LONG:
        case DATE:
          return Long.valueOf(text);
        case FLOAT:
          return Double.longBitsToDouble(Long.parseUnsignedLong(text, 16));
        case DECIMAL:
          return HiveDecimal.create(text);
        case TIMESTAMP:
          String[] parts = text.split(":");
          Timestamp stamp = new Timestamp(Long.parseLong(parts[0]) * 1000);
          stamp.setNanos(Integer.parseInt(parts[1]));
          return stamp;
        default:
          return text;
      }
    }

    private void begin(Reader opened) {
      reader = opened;
      schema = reader.getSchema();
      List<String> acidNames =
          List.of("operation", "originalTransaction", "bucket", "rowId", "currentTransaction", "row");
      boolean isAcid = schema.getFieldNames().equals(acidNames);
      acid = isAcid ? 5 : -1;
      parent = isAcid ? schema.getChildren().get(5) : schema;
      batch = schema.createRowBatch();
    }

    List<String> run() throws Exception {
      try (Reader opened = open(path)) {
        begin(opened);
        for (int c = 0; c < parent.getChildren().size(); c++) {
          String name = parent.getFieldNames().get(c);
          if (wanted == null || wanted.contains(name)) {
            column(c, name, parent.getChildren().get(c));
          }
        }
      }
      return found;
    }

    private void column(int index, String name, TypeDescription type) throws Exception {
      PredicateLeaf.Type leaf = leaf(type);
      if (leaf == null) {
        return;
      }
      List<Object> values = new ArrayList<>();
      read(index, type, null, null, values);
      if (leaf == PredicateLeaf.Type.STRING && values.stream().anyMatch(Sargs::utf16Differs)) {
        found.add("{\"column\":" + quoted(name) + ",\"skipped\":\"text above U+D7FF\"}");
        return;
      }
      long[] figures = new long[3];
      List<String> lost = new ArrayList<>();
      // row groups share values: what was asked is not asked again
      Map<Object, Integer> asked = new HashMap<>();
      for (Query query : queries(leaf, type, values)) {
        Integer before = asked.get(query.key());
        if (before != null) {
          figures[0]++;
          figures[1] += before;
          figures[2] += values.size();
          continue;
        }
        long expected = values.stream().filter(query::matches).count();
        List<Object> pruned = new ArrayList<>();
        read(index, type, query.sarg(name), name, pruned);
        long got = pruned.stream().filter(query::matches).count();
        asked.put(query.key(), pruned.size());
        figures[0]++;
        figures[1] += pruned.size();
        figures[2] += values.size();
        if (got != expected) {
          lost.add(quoted(query + ": " + got + " rows, " + expected + " are true"));
        }
      }
      found.add(
          "{\"column\":" + quoted(name) + ",\"queries\":" + figures[0] + ",\"rows_read\":" + figures[1]
              + ",\"rows_total\":" + figures[2] + ",\"lost\":[" + String.join(",", lost) + "]}");
    }

    private static boolean utf16Differs(Object value) {
      return value instanceof String && ((String) value).chars().anyMatch(c -> c >= 0xD800);
    }

    private void read(int index, TypeDescription type, SearchArgument sarg, String name, List<Object> into)
        throws Exception {
      boolean[] include = new boolean[schema.getMaximumId() + 1];
      include[0] = true;
      if (acid >= 0) {
        include[parent.getId()] = true;
      }
      include[type.getId()] = true;
      Reader.Options options = reader.options().include(include).allowSARGToFilter(false);
      if (sarg != null) {
        options.searchArgument(sarg, new String[] {name});
      }
      try (RecordReader rows = reader.rows(options)) {
        while (rows.nextBatch(batch)) {
          ColumnVector holder = acid >= 0 ? batch.cols[acid] : null;
          ColumnVector vector = acid >= 0 ? ((StructColumnVector) holder).fields[index] : batch.cols[index];
          for (int i = 0; i < batch.size; i++) {
            boolean absent = holder != null && !holder.noNulls && holder.isNull[holder.isRepeating ? 0 : i];
            into.add(absent ? ABSENT : object(vector, type, i));
          }
        }
      }
    }

    private static PredicateLeaf.Type leaf(TypeDescription type) {
      switch (type.getCategory()) {
        case BOOLEAN:
          return PredicateLeaf.Type.BOOLEAN;
        case BYTE:
        case SHORT:
        case INT:
        case LONG:
          return PredicateLeaf.Type.LONG;
        case FLOAT:
        case DOUBLE:
          return PredicateLeaf.Type.FLOAT;
        case STRING:
        case CHAR:
        case VARCHAR:
          return PredicateLeaf.Type.STRING;
        case DATE:
          return PredicateLeaf.Type.DATE;
        case DECIMAL:
          return PredicateLeaf.Type.DECIMAL;
        case TIMESTAMP:
        case TIMESTAMP_INSTANT:
          return PredicateLeaf.Type.TIMESTAMP;
        default:
          return null;
      }
    }

    /** A value as Comparable: Boolean, Long, Double (null for NaN), String, HiveDecimal, Timestamp. Dates are Long. */
    private static Object object(ColumnVector vector, TypeDescription type, int row) {
      int at = vector.isRepeating ? 0 : row;
      if (!vector.noNulls && vector.isNull[at]) {
        return null;
      }
      switch (type.getCategory()) {
        case BOOLEAN:
          return ((LongColumnVector) vector).vector[at] != 0;
        case FLOAT:
        case DOUBLE:
          return ((DoubleColumnVector) vector).vector[at];
        case STRING:
        case VARCHAR:
          return new String(bytes((BytesColumnVector) vector, at), StandardCharsets.UTF_8);
        case CHAR:
          String text = new String(bytes((BytesColumnVector) vector, at), StandardCharsets.UTF_8);
          int missing = type.getMaxLength() - text.codePointCount(0, text.length());
          return text + " ".repeat(Math.max(missing, 0));
        case DECIMAL:
          return ((DecimalColumnVector) vector).vector[at].getHiveDecimal();
        case TIMESTAMP:
        case TIMESTAMP_INSTANT:
          TimestampColumnVector ts = (TimestampColumnVector) vector;
          Timestamp stamp = new Timestamp(ts.time[at]);
          stamp.setNanos(ts.nanos[at]);
          return stamp;
        default:
          return ((LongColumnVector) vector).vector[at];
      }
    }

    private List<Query> queries(PredicateLeaf.Type leaf, TypeDescription type, List<Object> values) {
      List<Query> found = new ArrayList<>();
      found.add(new Query(leaf, "null"));
      List<Long> starts = new ArrayList<>(groupStarts(reader));
      int groups = starts.size();
      int step = Math.max(1, (groups + maxGroups - 1) / maxGroups);
      Set<Integer> chosen = new TreeSet<>();
      for (int g = 0; g < groups; g += step) {
        chosen.add(g);
      }
      if (groups > 0) {
        chosen.add(groups - 1);
      }
      for (int g : chosen) {
        int from = starts.get(g).intValue();
        int to = g + 1 < groups ? starts.get(g + 1).intValue() : values.size();
        group(found, leaf, type, values.subList(from, to));
      }
      return found;
    }

    private static void group(List<Query> found, PredicateLeaf.Type leaf, TypeDescription type, List<Object> values) {
      Comparator<Object> order = Query::compare;
      List<Object> usable = new ArrayList<>();
      for (Object value : values) {
        if (value != null && value != ABSENT && !(value instanceof Double && ((Double) value).isNaN())) {
          usable.add(value);
        }
      }
      if (usable.isEmpty()) {
        return;
      }
      Object low = usable.stream().min(order).get();
      Object high = usable.stream().max(order).get();
      Object middle = usable.get(usable.size() / 2);
      List<Object> literals = new ArrayList<>(Arrays.asList(low, high, next(low, type, -1), next(high, type, 1)));
      literals.removeIf(literal -> !allowed(literal, leaf));
      for (Object literal : literals) {
        for (String operator : new String[] {"=", "<", "<=", ">", ">="}) {
          found.add(new Query(leaf, operator, literal));
        }
      }
      if (allowed(low, leaf) && allowed(high, leaf) && leaf != PredicateLeaf.Type.BOOLEAN) {
        found.add(new Query(leaf, "between", low, high));
        found.add(new Query(leaf, "between", high, high));
        found.add(new Query(leaf, "in", low, high));
        if (allowed(middle, leaf)) {
          found.add(new Query(leaf, "between", middle, middle));
        }
      }
      Object any = usable.get(new Random(usable.size()).nextInt(usable.size()));
      if (allowed(any, leaf)) {
        for (String operator : new String[] {"=", "<", ">"}) {
          found.add(new Query(leaf, operator, any));
        }
      }
    }

    /** Literals whose meaning differs between SQL and Java: a zero of either sign, times before 1582-10-15. */
    private static boolean allowed(Object literal, PredicateLeaf.Type leaf) {
      if (literal == null) {
        return false;
      }
      if (literal instanceof Double) {
        return (Double) literal != 0.0;
      }
      if (literal instanceof Timestamp) {
        return ((Timestamp) literal).getTime() >= -141427L * 86_400_000L;
      }
      return leaf != PredicateLeaf.Type.DATE || (Long) literal >= -141427;
    }

    private static Object next(Object value, TypeDescription type, int direction) {
      if (value instanceof Long) {
        long number = (Long) value;
        boolean edge = direction < 0 ? number == Long.MIN_VALUE : number == Long.MAX_VALUE;
        return edge ? null : number + direction;
      }
      if (value instanceof Double) {
        double number = (Double) value;
        boolean single = type.getCategory() == TypeDescription.Category.FLOAT;
        double next = direction < 0 ? Math.nextDown(number) : Math.nextUp(number);
        double nextSingle = direction < 0 ? Math.nextDown((float) number) : Math.nextUp((float) number);
        return single ? nextSingle : next;
      }
      if (value instanceof String) {
        String text = (String) value;
        if (direction > 0) {
          return text + "!";
        }
        return text.isEmpty() ? null : text.substring(0, text.length() - 1);
      }
      if (value instanceof HiveDecimal) {
        HiveDecimal unit = HiveDecimal.create(java.math.BigInteger.valueOf(direction), type.getScale());
        return ((HiveDecimal) value).add(unit);
      }
      if (value instanceof Timestamp) {
        Timestamp stamp = (Timestamp) value;
        long nanos = stamp.getNanos() + direction;
        Timestamp moved = new Timestamp(stamp.getTime() + (nanos < 0 ? -1000 : nanos > 999_999_999 ? 1000 : 0));
        moved.setNanos((int) Math.floorMod(nanos, 1_000_000_000L));
        return moved;
      }
      return null;
    }
  }

  /** One predicate: as a search argument, and decided by ourselves. */
  private static final class Query {
    private final PredicateLeaf.Type leaf;
    private final String operator;
    private final Object[] literals;

    Query(PredicateLeaf.Type leaf, String operator, Object... literals) {
      this.leaf = leaf;
      this.operator = operator;
      this.literals = literals;
    }

    Object key() {
      return List.of(operator, Arrays.asList(literals));
    }

    @SuppressWarnings("unchecked")
    static int compare(Object a, Object b) {
      if (a instanceof Double) {
        double x = (Double) a;
        double y = (Double) b;
        return x < y ? -1 : x > y ? 1 : 0;
      }
      return ((Comparable<Object>) a).compareTo(b);
    }

    boolean matches(Object value) {
      if (operator.equals("null")) {
        return value == null;
      }
      if (value == null || value == Sargs.ABSENT || (value instanceof Double && ((Double) value).isNaN())) {
        return false;
      }
      int order = compare(value, literals[0]);
      switch (operator) {
        case "=":
          return order == 0;
        case "<":
          return order < 0;
        case "<=":
          return order <= 0;
        case ">":
          return order > 0;
        case ">=":
          return order >= 0;
        case "between":
          return order >= 0 && compare(value, literals[1]) <= 0;
        default:
          return order == 0 || compare(value, literals[1]) == 0;
      }
    }

    private Object literal(int i) {
      Object value = literals[i];
      if (leaf == PredicateLeaf.Type.DATE) {
        return new Date((Long) value * 86_400_000L);
      }
      return value instanceof HiveDecimal ? new HiveDecimalWritable((HiveDecimal) value) : value;
    }

    SearchArgument sarg(String name) {
      SearchArgument.Builder builder = SearchArgumentFactory.newBuilder().startAnd();
      switch (operator) {
        case "null":
          builder.isNull(name, leaf);
          break;
        case "=":
          builder.equals(name, leaf, literal(0));
          break;
        case "<":
          builder.lessThan(name, leaf, literal(0));
          break;
        case "<=":
          builder.lessThanEquals(name, leaf, literal(0));
          break;
        case ">":
          builder.startNot().lessThanEquals(name, leaf, literal(0)).end();
          break;
        case ">=":
          builder.startNot().lessThan(name, leaf, literal(0)).end();
          break;
        case "between":
          builder.between(name, leaf, literal(0), literal(1));
          break;
        default:
          builder.in(name, leaf, literal(0), literal(1));
      }
      return builder.end().build();
    }

    @Override
    public String toString() {
      return operator + " " + Arrays.toString(literals);
    }
  }
}
