import java.io.BufferedOutputStream;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.PrintStream;
import java.time.Instant;
import java.time.LocalDate;
import java.time.zone.ZoneOffsetTransition;
import java.time.zone.ZoneRules;
import java.util.Arrays;
import java.util.TimeZone;
import java.util.TreeSet;

/**
 * Prints a line for each time zone of this Java, fields separated by tabs: its id, then three numbers for each of many instants
 * between the starts of two years: its second, and the seconds that java.time and java.util.TimeZone add for a clock.
 */
public final class ZoneOffsets {
  public static void main(String[] years) {
    PrintStream out = new PrintStream(new BufferedOutputStream(new FileOutputStream(FileDescriptor.out), 1 << 16));
    long start = LocalDate.of(Integer.parseInt(years[0]), 1, 1).toEpochDay();
    long end = LocalDate.of(Integer.parseInt(years[1]), 1, 1).toEpochDay();
    for (String id : new TreeSet<>(Arrays.asList(TimeZone.getAvailableIDs()))) {
      TimeZone zone = TimeZone.getTimeZone(id);
      ZoneRules rules = zone.toZoneId().getRules();
      TreeSet<Long> seconds = new TreeSet<>();
      for (long day = start; day < end; day += 61) {
        seconds.add(day * 86400);
      }
      for (ZoneOffsetTransition transition : rules.getTransitions()) {
        seconds.add(transition.toEpochSecond());
        seconds.add(transition.toEpochSecond() - 1);
      }
      out.print(id);
      for (long second : seconds.subSet(start * 86400, end * 86400)) {
        int offset = rules.getOffset(Instant.ofEpochSecond(second)).getTotalSeconds();
        out.print("\t" + second + "\t" + offset + "\t" + zone.getOffset(second * 1000) / 1000);
      }
      out.print("\n");
    }
    out.flush();
  }
}
