import java.io.BufferedReader;
import java.io.File;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Constructor;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hive.common.type.DataTypePhysicalVariation;
import org.apache.hadoop.hive.common.type.Date;
import org.apache.hadoop.hive.common.type.HiveChar;
import org.apache.hadoop.hive.common.type.HiveDecimal;
import org.apache.hadoop.hive.common.type.Timestamp;
import org.apache.hadoop.hive.common.type.TimestampTZ;
import org.apache.hadoop.hive.ql.exec.SerializationUtilities;
import org.apache.hadoop.hive.ql.exec.Utilities;
import org.apache.hadoop.hive.ql.exec.vector.VectorExtractRow;
import org.apache.hadoop.hive.ql.exec.vector.VectorizedRowBatch;
import org.apache.hadoop.hive.ql.exec.vector.VectorizedRowBatchCtx;
import org.apache.hadoop.hive.ql.io.AcidUtils;
import org.apache.hadoop.hive.ql.io.RecordIdentifier;
import org.apache.hadoop.hive.ql.io.orc.OrcInputFormat;
import org.apache.hadoop.hive.ql.io.orc.OrcSplit;
import org.apache.hadoop.hive.ql.io.orc.OrcStruct;
import org.apache.hadoop.hive.ql.io.orc.VectorizedOrcAcidRowBatchReader;
import org.apache.hadoop.hive.ql.io.sarg.ConvertAstToSearchArg;
import org.apache.hadoop.hive.ql.metadata.VirtualColumn;
import org.apache.hadoop.hive.ql.plan.ExprNodeColumnDesc;
import org.apache.hadoop.hive.ql.plan.ExprNodeConstantDesc;
import org.apache.hadoop.hive.ql.plan.ExprNodeDesc;
import org.apache.hadoop.hive.ql.plan.ExprNodeGenericFuncDesc;
import org.apache.hadoop.hive.ql.plan.MapWork;
import org.apache.hadoop.hive.ql.plan.TableScanDesc;
import org.apache.hadoop.hive.ql.udf.generic.GenericUDF;
import org.apache.hadoop.hive.ql.udf.generic.GenericUDFOPEqual;
import org.apache.hadoop.hive.ql.udf.generic.GenericUDFOPGreaterThan;
import org.apache.hadoop.hive.ql.udf.generic.GenericUDFOPLessThan;
import org.apache.hadoop.hive.ql.udf.generic.GenericUDFOPNull;
import org.apache.hadoop.hive.serde2.ColumnProjectionUtils;
import org.apache.hadoop.hive.serde2.objectinspector.ListObjectInspector;
import org.apache.hadoop.hive.serde2.objectinspector.MapObjectInspector;
import org.apache.hadoop.hive.serde2.objectinspector.ObjectInspector;
import org.apache.hadoop.hive.serde2.objectinspector.PrimitiveObjectInspector;
import org.apache.hadoop.hive.serde2.objectinspector.StructField;
import org.apache.hadoop.hive.serde2.objectinspector.StructObjectInspector;
import org.apache.hadoop.hive.serde2.objectinspector.UnionObjectInspector;
import org.apache.hadoop.hive.serde2.objectinspector.primitive.PrimitiveObjectInspectorFactory;
import org.apache.hadoop.hive.serde2.objectinspector.primitive.PrimitiveObjectInspectorUtils;
import org.apache.hadoop.hive.serde2.typeinfo.PrimitiveTypeInfo;
import org.apache.hadoop.hive.serde2.typeinfo.StructTypeInfo;
import org.apache.hadoop.hive.serde2.typeinfo.TypeInfo;
import org.apache.hadoop.hive.serde2.typeinfo.TypeInfoFactory;
import org.apache.hadoop.hive.serde2.typeinfo.TypeInfoUtils;
import org.apache.hadoop.io.NullWritable;
import org.apache.hadoop.mapred.FileInputFormat;
import org.apache.hadoop.mapred.InputSplit;
import org.apache.hadoop.mapred.JobConf;
import org.apache.hadoop.mapred.RecordReader;
import org.apache.hadoop.mapred.Reporter;
import org.apache.hive.com.esotericsoftware.kryo.Kryo;
import org.apache.hive.com.esotericsoftware.kryo.io.Output;
import org.apache.hive.common.util.HiveVersionInfo;

/**
 * Reads a directory of an ACID table with Hive's own OrcInputFormat on behalf of the tests.
 *
 * <p>Compiled against the jars of a Hive release. One request per line on standard input, fields separated by tabs: "rows" or
 * "batches", location, valid write ids, column names, column types, predicate (blank, or "column operator literal"), and any
 * number of settings "key=value". The answer is "OK n" and n lines, or "ERR message". A line is the JSON array [write id, bucket
 * property, row id, [values]]; values have the form of judges/values.py.
 */
public final class HiveJudge {
  private static final String ALL_TRANSACTIONS = "1000000000:9223372036854775807::";

  private static final HexFormat HEX = HexFormat.of();

  private static final boolean OLD = HiveVersionInfo.getVersion().startsWith("3.");

  public static void main(String[] args) throws Exception {
    PrintStream answers = new PrintStream(new FileOutputStream(FileDescriptor.out), false, "UTF-8");
    System.setOut(System.err);
    BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = requests.readLine(); line != null; line = requests.readLine()) {
      try {
        List<String> found = new Request(line.split("\t", -1)).read();
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

  static String describe(Throwable e) {
    StringBuilder text = new StringBuilder(e.toString());
    for (Throwable c = e.getCause(); c != null; c = c.getCause()) {
      text.append("; ").append(c);
    }
    if (e.getStackTrace().length > 0) {
      text.append(" at ").append(e.getStackTrace()[0]);
    }
    return text.toString().replaceAll("[\\s]+", " ");
  }

  /** One read, set up as Hive sets up the scan of a full ACID table. */
  private static final class Request {
    private final JobConf conf = new JobConf(false);
    private final OrcInputFormat format = new OrcInputFormat();
    private final String[] names;
    private final List<TypeInfo> types;
    private final boolean batches;
    private final List<String> found = new ArrayList<>();

    Request(String[] fields) throws Exception {
      batches = fields[0].equals("batches");
      names = fields[3].split(",");
      types = TypeInfoUtils.getTypeInfosFromTypeString(fields[4]);
      conf.set("fs.defaultFS", "file:///");
      conf.set("fs.file.impl", "org.apache.hadoop.fs.LocalFileSystem");
      conf.set("hive.txn.valid.writeids", fields[2]);
      conf.set("hive.txn.valid.txns", ALL_TRANSACTIONS);
      for (String prefix : new String[] {"", "schema.evolution."}) {
        conf.set(prefix + "columns", fields[3]);
        conf.set(prefix + "columns.types", fields[4]);
      }
      conf.set("transactional", "true");
      conf.set("transactional_properties", "default");
      conf.set("hive.transactional.table.scan", "true");
      conf.set("hive.acid.table.scan", "true");
      AcidUtils.setAcidOperationalProperties(conf, true, AcidUtils.AcidOperationalProperties.getDefault());
      conf.set("bucket_count", "-1");
      conf.set("hive.txn.acid.dir.cache.duration", "0"); // Hive 4 remembers directories by the name of the table
      if (batches && !OLD) {
        MapWork work = new MapWork();
        work.setVectorMode(true);
        work.setVectorizedRowBatchCtx(context());
        Utilities.cacheMapWork(conf, work, new Path(System.getProperty("java.io.tmpdir"), "hive_judge_plan"));
      }
      conf.setBoolean(batches && !OLD ? "hive.vectorized.execution.enabled" : "VECTOR_MODE", batches);
      for (int i = 6; i < fields.length; i++) {
        int at = fields[i].indexOf('=');
        conf.set(fields[i].substring(0, at), fields[i].substring(at + 1));
      }
      conf.set(ColumnProjectionUtils.READ_COLUMN_NAMES_CONF_STR, fields[3]);
      conf.set(ColumnProjectionUtils.READ_ALL_COLUMNS, "true");
      if (!fields[5].isEmpty()) {
        conf.set("hive.optimize.index.filter", "true");
        if (OLD) { // as for plans: it cannot load the class that reads expressions
          Output sarg = new Output(4096, 1 << 20);
          new Kryo().writeObject(sarg, ConvertAstToSearchArg.create(conf, predicate(fields[5])));
          conf.set(ConvertAstToSearchArg.SARG_PUSHDOWN, Base64.getEncoder().encodeToString(sarg.toBytes()));
        } else {
          conf.set(TableScanDesc.FILTER_EXPR_CONF_STR, SerializationUtilities.serializeExpression(predicate(fields[5])));
        }
      }
      FileInputFormat.setInputPaths(conf, new Path(new File(fields[1]).toURI()));
    }

    /** "column operator literal"; the operator is eq, lt, gt or null. */
    private ExprNodeGenericFuncDesc predicate(String text) throws Exception {
      String[] words = text.split(" ", 3);
      PrimitiveTypeInfo type = (PrimitiveTypeInfo) types.get(Arrays.asList(names).indexOf(words[0]));
      List<ExprNodeDesc> operands = new ArrayList<>();
      operands.add(new ExprNodeColumnDesc(type, words[0], "t", false));
      if (words[1].equals("null")) {
        return ExprNodeGenericFuncDesc.newInstance(new GenericUDFOPNull(), operands);
      }
      Object literal =
          PrimitiveObjectInspectorFactory.getPrimitiveJavaObjectInspector(type)
              .getPrimitiveJavaObject(
                  org.apache.hadoop.hive.serde2.objectinspector.ObjectInspectorConverters.getConverter(
                          PrimitiveObjectInspectorFactory.javaStringObjectInspector,
                          PrimitiveObjectInspectorFactory.getPrimitiveJavaObjectInspector(type))
                      .convert(words[2]));
      operands.add(new ExprNodeConstantDesc(type, literal));
      GenericUDF operator;
      switch (words[1]) {
        case "eq":
          operator = new GenericUDFOPEqual();
          break;
        case "lt":
          operator = new GenericUDFOPLessThan();
          break;
        case "gt":
          operator = new GenericUDFOPGreaterThan();
          break;
        default:
          throw new IllegalArgumentException("no such operator: " + words[1]);
      }
      return ExprNodeGenericFuncDesc.newInstance(operator, operands);
    }

    private VectorizedRowBatchCtx context() {
      int count = names.length;
      String[] all = Arrays.copyOf(names, count + 1);
      all[count] = VirtualColumn.ROWID.getName();
      TypeInfo[] kinds = types.toArray(new TypeInfo[count + 1]);
      kinds[count] = VirtualColumn.ROWID.getTypeInfo();
      DataTypePhysicalVariation[] plain = new DataTypePhysicalVariation[count + 1];
      Arrays.fill(plain, DataTypePhysicalVariation.NONE);
      int[] numbers = new int[count];
      for (int i = 0; i < count; i++) {
        numbers[i] = i;
      }
      VirtualColumn[] needed = {VirtualColumn.ROWID};
      return new VectorizedRowBatchCtx(
          all, kinds, plain, numbers, 0, 1, needed, new String[0], new DataTypePhysicalVariation[0]);
    }

    List<String> read() throws Exception {
      for (InputSplit split : format.getSplits(conf, 1)) {
        RecordReader<?, ?> reader = open(split);
        if (batches) {
          readBatches(reader);
        } else {
          readRows(reader);
        }
        reader.close();
      }
      return found;
    }

    /** Hive 3.1 reads batches by a plan too, but with a newer Java than 8 it cannot load the class that reads plans. */
    private RecordReader<?, ?> open(InputSplit split) throws Exception {
      if (!batches || !OLD) {
        return format.getRecordReader(split, conf, Reporter.NULL);
      }
      Constructor<VectorizedOrcAcidRowBatchReader> open =
          VectorizedOrcAcidRowBatchReader.class.getDeclaredConstructor(
              OrcSplit.class, JobConf.class, Reporter.class, VectorizedRowBatchCtx.class);
      open.setAccessible(true);
      return open.newInstance(split, conf, Reporter.NULL, context());
    }

    @SuppressWarnings("unchecked")
    private void readRows(RecordReader<?, ?> reader) throws Exception {
      RecordReader<NullWritable, OrcStruct> rows = (RecordReader<NullWritable, OrcStruct>) reader;
      StructTypeInfo row = (StructTypeInfo) TypeInfoFactory.getStructTypeInfo(Arrays.asList(names), types);
      ObjectInspector inspector = OrcStruct.createObjectInspector(row);
      NullWritable key = rows.createKey();
      OrcStruct value = rows.createValue();
      while (rows.next(key, value)) {
        RecordIdentifier id = ((OrcInputFormat.NullKeyRecordReader) reader).getRecordIdentifier();
        StringBuilder out = new StringBuilder();
        out.append('[').append(id.getWriteId()).append(',').append(id.getBucketProperty());
        out.append(',').append(id.getRowId()).append(',');
        print(out, value, inspector);
        found.add(out.append(']').toString());
      }
    }

    @SuppressWarnings("unchecked")
    private void readBatches(RecordReader<?, ?> reader) throws Exception {
      RecordReader<NullWritable, VectorizedRowBatch> vectors = (RecordReader<NullWritable, VectorizedRowBatch>) reader;
      int count = names.length;
      TypeInfo[] kinds = types.toArray(new TypeInfo[count + 1]);
      kinds[count] = VirtualColumn.ROWID.getTypeInfo();
      ObjectInspector[] inspectors = new ObjectInspector[count + 1];
      for (int i = 0; i <= count; i++) {
        inspectors[i] = TypeInfoUtils.getStandardWritableObjectInspectorFromTypeInfo(kinds[i]);
      }
      VectorExtractRow extract = new VectorExtractRow();
      extract.init(kinds);
      NullWritable key = vectors.createKey();
      VectorizedRowBatch batch = vectors.createValue();
      Object[] row = new Object[count + 1];
      while (vectors.next(key, batch)) {
        for (int i = 0; i < batch.size; i++) {
          extract.extractRow(batch, batch.selectedInUse ? batch.selected[i] : i, row);
          StringBuilder id = new StringBuilder();
          print(id, row[count], inspectors[count]);
          StringBuilder out = new StringBuilder(id.substring(0, id.length() - 1)).append(",[");
          for (int column = 0; column < count; column++) {
            out.append(column > 0 ? "," : "");
            print(out, row[column], inspectors[column]);
          }
          found.add(out.append("]]").toString());
        }
      }
    }
  }

  static void print(StringBuilder out, Object value, ObjectInspector inspector) {
    if (value == null) {
      out.append("null");
      return;
    }
    String before = "[";
    switch (inspector.getCategory()) {
      case PRIMITIVE:
        primitive(out, value, (PrimitiveObjectInspector) inspector);
        return;
      case LIST:
        ListObjectInspector list = (ListObjectInspector) inspector;
        for (int i = 0; i < list.getListLength(value); i++) {
          out.append(before);
          print(out, list.getListElement(value, i), list.getListElementObjectInspector());
          before = ",";
        }
        break;
      case MAP:
        MapObjectInspector map = (MapObjectInspector) inspector;
        for (Map.Entry<?, ?> entry : map.getMap(value).entrySet()) {
          out.append(before).append('[');
          print(out, entry.getKey(), map.getMapKeyObjectInspector());
          out.append(',');
          print(out, entry.getValue(), map.getMapValueObjectInspector());
          out.append(']');
          before = ",";
        }
        break;
      case STRUCT:
        StructObjectInspector struct = (StructObjectInspector) inspector;
        for (StructField field : struct.getAllStructFieldRefs()) {
          out.append(before);
          print(out, struct.getStructFieldData(value, field), field.getFieldObjectInspector());
          before = ",";
        }
        break;
      case UNION:
        UnionObjectInspector union = (UnionObjectInspector) inspector;
        int tag = union.getTag(value);
        out.append("[\"u\",").append(tag).append(',');
        print(out, union.getField(value), union.getObjectInspectors().get(tag));
        before = ",";
        break;
      default:
        throw new IllegalArgumentException("a value of " + inspector.getTypeName());
    }
    out.append(before.equals("[") ? "[]" : "]");
  }

  private static void primitive(StringBuilder out, Object value, PrimitiveObjectInspector inspector) {
    Object found = inspector.getPrimitiveJavaObject(value);
    switch (inspector.getPrimitiveCategory()) {
      case BOOLEAN:
      case BYTE:
      case SHORT:
      case INT:
      case LONG:
        out.append(found);
        break;
      case FLOAT:
      case DOUBLE:
        long bits = Double.doubleToRawLongBits(PrimitiveObjectInspectorUtils.getDouble(value, inspector));
        out.append("\"f:").append(HEX.toHexDigits(bits)).append('"');
        break;
      case STRING:
      case VARCHAR:
        text(out, found.toString());
        break;
      case CHAR:
        text(out, ((HiveChar) found).getPaddedValue());
        break;
      case BINARY:
        out.append("\"b:").append(HEX.formatHex((byte[]) found)).append('"');
        break;
      case DECIMAL:
        out.append("\"n:").append(((HiveDecimal) found).bigDecimalValue().stripTrailingZeros().toPlainString());
        out.append('"');
        break;
      case DATE:
        out.append("\"d:").append(((Date) found).toEpochDay()).append('"');
        break;
      case TIMESTAMP:
        Timestamp moment = (Timestamp) found;
        out.append("\"t:").append(Math.floorDiv(moment.toEpochMilli(), 1000L));
        out.append(':').append(moment.getNanos()).append('"');
        break;
      case TIMESTAMPLOCALTZ:
        TimestampTZ instant = (TimestampTZ) found;
        out.append("\"t:").append(instant.getEpochSecond()).append(':').append(instant.getNanos()).append('"');
        break;
      default:
        throw new IllegalArgumentException("a value of " + inspector.getTypeName());
    }
  }

  private static void text(StringBuilder out, String text) {
    out.append("\"s:");
    for (int i = 0; i < text.length(); i++) {
      char c = text.charAt(i);
      if (c == '"' || c == '\\') {
        out.append('\\').append(c);
      } else if (c < ' ' || c > '~') {
        out.append("\\u").append(HEX.toHexDigits(c));
      } else {
        out.append(c);
      }
    }
    out.append('"');
  }
}
