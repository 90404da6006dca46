import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hadoop.hive.ql.exec.ColumnInfo;
import org.apache.hadoop.hive.ql.exec.ExprNodeEvaluator;
import org.apache.hadoop.hive.ql.exec.ExprNodeEvaluatorFactory;
import org.apache.hadoop.hive.ql.parse.ASTNode;
import org.apache.hadoop.hive.ql.parse.ParseDriver;
import org.apache.hadoop.hive.ql.parse.RowResolver;
import org.apache.hadoop.hive.ql.plan.ExprNodeDesc;
import org.apache.hadoop.hive.ql.session.SessionState;
import org.apache.hadoop.hive.serde2.objectinspector.ObjectInspector;
import org.apache.hadoop.hive.serde2.objectinspector.ObjectInspectorConverters;
import org.apache.hadoop.hive.serde2.objectinspector.ObjectInspectorFactory;
import org.apache.hadoop.hive.serde2.objectinspector.PrimitiveObjectInspector;
import org.apache.hadoop.hive.serde2.objectinspector.primitive.PrimitiveObjectInspectorFactory;
import org.apache.hadoop.hive.serde2.typeinfo.PrimitiveTypeInfo;
import org.apache.hadoop.hive.serde2.typeinfo.TypeInfo;
import org.apache.hadoop.hive.serde2.typeinfo.TypeInfoFactory;
import org.apache.hadoop.hive.serde2.typeinfo.TypeInfoUtils;
import org.apache.hive.common.util.HiveVersionInfo;

/**
 * Reads texts of partition keys and evaluates conditions with Hive's own classes on behalf of the tests.
 *
 * <p>Compiled against the jars of a Hive release. One request per line on standard input, fields separated by tabs, texts as in
 * URLs. The answer is "OK n" and n lines, or "ERR message".
 *
 * <ul>
 *   <li>"keys", a type, and texts: for each text the JSON array of the value that batches and partition pruning have (a Java
 *       object) and of that which rows have (a Writable), both in the form of judges/values.py; an error is its text.
 *   <li>"conditions", names of columns, their types, a count of rows, their values row by row (blank, or a letter and the text of
 *       the value), and conditions: for each condition the JSON array of its values for the rows, or the text of an error.
 * </ul>
 */
public final class ConditionJudge {
  private static final boolean OLD = HiveVersionInfo.getVersion().startsWith("3.");

  public static void main(String[] args) throws Exception {
    PrintStream answers = new PrintStream(new FileOutputStream(FileDescriptor.out), false, "UTF-8");
    System.setOut(System.err);
    BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = requests.readLine(); line != null; line = requests.readLine()) {
      try {
        String[] fields = line.split("\t", -1);
        List<String> found = fields[0].equals("keys") ? keys(fields) : conditions(fields);
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

  private static String text(String field) {
    return URLDecoder.decode(field, StandardCharsets.UTF_8);
  }

  private static String error(Throwable e) {
    return '"' + HiveJudge.describe(e).replaceAll("[^ !#-\\[\\]-~]", "?") + '"';
  }

  /** As VectorizedRowBatchCtx.getPartitionValues and PartExprEvalUtils do, and as MapOperator and FetchOperator do. */
  private static List<String> keys(String[] fields) {
    PrimitiveTypeInfo type = TypeInfoFactory.getPrimitiveTypeInfo(fields[1]);
    List<String> found = new ArrayList<>();
    for (String field : Arrays.asList(fields).subList(2, fields.length)) {
      found.add(
          '['
              + key(text(field), PrimitiveObjectInspectorFactory.getPrimitiveJavaObjectInspector(type))
              + ','
              + key(text(field), PrimitiveObjectInspectorFactory.getPrimitiveWritableObjectInspector(type))
              + ']');
    }
    return found;
  }

  private static String key(String text, ObjectInspector inspector) {
    try {
      StringBuilder out = new StringBuilder();
      HiveJudge.print(out, converted(text, inspector), inspector);
      return out.toString();
    } catch (RuntimeException e) {
      return error(e);
    }
  }

  private static Object converted(String text, ObjectInspector inspector) {
    return ObjectInspectorConverters.getConverter(PrimitiveObjectInspectorFactory.javaStringObjectInspector, inspector)
        .convert(text);
  }

  private static List<String> conditions(String[] fields) throws Exception {
    if (SessionState.get() == null && !OLD) { // Hive 3.1 needs none, and makes none with a newer Java than 8
      HiveConf conf = new HiveConf();
      conf.set("hive.strict.checks.type.safety", "false"); // else it refuses to compare a BIGINT with a DOUBLE
      SessionState.setCurrentSessionState(new SessionState(conf));
    }
    List<String> names = Arrays.asList(fields[1].split(","));
    List<TypeInfo> types = TypeInfoUtils.getTypeInfosFromTypeString(fields[2]);
    RowResolver columns = new RowResolver();
    List<ObjectInspector> inspectors = new ArrayList<>();
    for (int i = 0; i < names.size(); i++) {
      columns.put("t", names.get(i), new ColumnInfo(names.get(i), types.get(i), "t", false));
      inspectors.add(TypeInfoUtils.getStandardWritableObjectInspectorFromTypeInfo(types.get(i)));
    }
    ObjectInspector inspector = ObjectInspectorFactory.getStandardStructObjectInspector(names, inspectors);
    int at = 4;
    List<List<Object>> rows = new ArrayList<>();
    for (int count = Integer.parseInt(fields[3]); count > 0; count--) {
      List<Object> row = new ArrayList<>();
      for (ObjectInspector column : inspectors) {
        String field = fields[at++];
        row.add(field.isEmpty() ? null : converted(text(field.substring(1)), column));
      }
      rows.add(row);
    }
    List<String> found = new ArrayList<>();
    for (; at < fields.length; at++) {
      try {
        found.add(values(text(fields[at]), columns, inspector, rows));
      } catch (Throwable e) {
        found.add(error(e instanceof InvocationTargetException ? e.getCause() : e));
      }
    }
    return found;
  }

  private static String values(String condition, RowResolver columns, ObjectInspector inspector, List<List<Object>> rows)
      throws Exception {
    ASTNode tree = new ParseDriver().parseExpression(condition);
    ExprNodeEvaluator<?> evaluator = ExprNodeEvaluatorFactory.get(typed(tree, columns));
    PrimitiveObjectInspector result = (PrimitiveObjectInspector) evaluator.initialize(inspector);
    StringBuilder out = new StringBuilder();
    for (List<Object> row : rows) {
      out.append(out.length() == 0 ? '[' : ',').append(result.getPrimitiveJavaObject(evaluator.evaluate(row)));
    }
    return out.append(']').toString();
  }

  /** The tree with casts and types; the class that makes it has another name in each generation. */
  private static ExprNodeDesc typed(ASTNode tree, RowResolver columns) throws Exception {
    String room = "org.apache.hadoop.hive.ql.parse." + (OLD ? "" : "type.");
    Class<?> context = Class.forName(room + "TypeCheckCtx");
    Map<?, ?> found =
        (Map<?, ?>)
            Class.forName(room + (OLD ? "TypeCheckProcFactory" : "ExprNodeTypeCheck"))
                .getMethod("genExprNode", ASTNode.class, context)
                .invoke(null, tree, context.getConstructor(RowResolver.class).newInstance(columns));
    Object made = found.get(tree);
    if (made == null) {
      throw new IllegalArgumentException("Hive makes nothing of it: " + found.values());
    }
    return (ExprNodeDesc) made;
  }
}
