import java.io.IOException;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSInputStream;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;

/**
 * Local files, read by the thread that asks.
 *
 * <p>Hadoop's own hands each of several ranges to another thread, which takes longer than to read it.
 */
public final class LocalFiles extends RawLocalFileSystem {
  @Override
  public FSDataInputStream open(Path path, int bufferSize) throws IOException {
    return new FSDataInputStream(new Input(super.open(path, bufferSize)));
  }

  /** Several ranges are read by the default of PositionedReadable: one after the other. */
  private static final class Input extends FSInputStream {
    private final FSDataInputStream file;

    Input(FSDataInputStream file) {
      this.file = file;
    }

    @Override
    public void seek(long position) throws IOException {
      file.seek(position);
    }

    @Override
    public long getPos() throws IOException {
      return file.getPos();
    }

    @Override
    public boolean seekToNewSource(long position) {
      return false;
    }

    @Override
    public int available() throws IOException {
      return file.available();
    }

    @Override
    public int read() throws IOException {
      return file.read();
    }

    @Override
    public int read(byte[] into, int from, int count) throws IOException {
      return file.read(into, from, count);
    }

    @Override
    public int read(long position, byte[] into, int from, int count) throws IOException {
      return file.read(position, into, from, count);
    }

    @Override
    public void close() throws IOException {
      file.close();
    }
  }
}
