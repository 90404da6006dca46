import java.io.IOException;
import java.net.URI;
import java.net.URISyntaxException;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFileAttributes;
import java.nio.file.attribute.PosixFilePermissions;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.DelegateToFileSystem;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

/**
 * Hadoop's local files; without its native library Hadoop starts chmod for what it makes, readlink for links, and ls
 * for whoever asks for rights or an owner.
 */
public final class LocalFilesWithoutCommands extends LocalFileSystem {
  public LocalFilesWithoutCommands() {
    super(new Raw());
  }

  /** The same for FileContext, by which Tez gives every task its files. */
  public static final class Abstract extends DelegateToFileSystem {
    public Abstract(URI uri, Configuration conf) throws IOException, URISyntaxException {
      super(uri, new Raw(), conf, "file", false);
    }

    @Override
    public int getUriDefaultPort() {
      return -1;
    }

    @Override
    public boolean isValidName(String name) {
      return true;
    }
  }

  private static final class Raw extends RawLocalFileSystem {
    @Override
    public void setPermission(Path path, FsPermission permission) throws IOException {
      Files.setAttribute(pathToFile(path).toPath(), "unix:mode", (int) permission.toShort());
    }

    @Override
    public FileStatus getFileStatus(Path path) throws IOException {
      FileStatus found = super.getFileStatus(path);
      PosixFileAttributes more = Files.readAttributes(pathToFile(path).toPath(), PosixFileAttributes.class);
      return new FileStatus(
          found.getLen(),
          found.isDirectory(),
          found.getReplication(),
          found.getBlockSize(),
          found.getModificationTime(),
          found.getAccessTime(),
          FsPermission.valueOf("-" + PosixFilePermissions.toString(more.permissions())),
          more.owner().getName(),
          more.group().getName(),
          found.getPath());
    }

    @Override
    public FileStatus[] listStatus(Path path) throws IOException {
      return pathToFile(path).isFile() ? new FileStatus[] {getFileStatus(path)} : super.listStatus(path);
    }

    @Override
    public FileStatus getFileLinkStatus(Path path) throws IOException {
      return Files.isSymbolicLink(pathToFile(path).toPath()) ? super.getFileLinkStatus(path) : getFileStatus(path);
    }
  }
}
