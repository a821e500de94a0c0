"""Files of an archive, on whatever file system Spark knows: a local disk, HDFS, an object store."""

from __future__ import annotations

from typing import Any, NamedTuple

from pyspark.sql import SparkSession

from contrailmq.errors import ConfigError


class Entry(NamedTuple):
    """A file or a folder."""

    name: str
    path: str
    size: int
    is_folder: bool


class Folders:
    """Lists, renames, deletes and writes small files below one root."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        jvm = getattr(spark, "_jvm", None)
        if jvm is None:
            raise ConfigError(
                "this needs a Spark driver in this process; over Spark Connect run the pipeline's"
                " project with spark-pipelines instead"
            )
        self._path: Any = jvm.org.apache.hadoop.fs.Path
        self.root = root.rstrip("/")
        configuration: Any = spark._jsparkSession.sessionState().newHadoopConf()
        self._files: Any = self._path(self.root).getFileSystem(configuration)
        self._utilities: Any = jvm.org.apache.commons.io.IOUtils
        # Only this interface of Hadoop renames over a file that is there.
        self._contexts: Any = jvm.org.apache.hadoop.fs.FileContext.getFileContext(
            self._files.getUri(), configuration
        )
        choice = jvm.org.apache.hadoop.fs.Options.Rename
        self._overwrite: Any = spark.sparkContext._gateway.new_array(choice, 1)
        self._overwrite[0] = choice.OVERWRITE

    def entries(self, path: str) -> list[Entry]:
        """What a folder has, sorted by name; nothing when it is not there."""
        place = self._at(path)
        if not self._files.exists(place):
            return []
        found = [
            Entry(
                status.getPath().getName(),
                f"{path}/{status.getPath().getName()}".lstrip("/"),
                status.getLen(),
                status.isDirectory(),
            )
            for status in self._files.listStatus(place)
        ]
        return sorted(found)

    def has(self, path: str) -> bool:
        """Whether there is such a file or folder."""
        return bool(self._files.exists(self._at(path)))

    def delete(self, path: str) -> None:
        """Remove a file, or a folder with all it has; nothing happens when it is not there."""
        self._files.delete(self._at(path), True)

    def rename(self, source: str, target: str) -> None:
        """Move a file or folder; the folder above the target is made."""
        place = self._at(target)
        self._files.mkdirs(place.getParent())
        if not self._files.rename(self._at(source), place):
            raise OSError(f"cannot rename {self.root}/{source} to {target}")

    def write_text(self, path: str, text: str) -> None:
        """Replace a small file: written beside, then renamed over it, so that it is whole."""
        beside = self._at(path + ".new")
        stream = self._files.create(beside, True)
        try:
            self._utilities.write(text, stream, "UTF-8")
        finally:
            stream.close()
        self._contexts.rename(beside, self._at(path), self._overwrite)

    def read_text(self, path: str) -> str | None:
        """A small file, or None."""
        place = self._at(path)
        if not self._files.exists(place):
            return None
        stream = self._files.open(place)
        try:
            return str(self._utilities.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def _at(self, path: str) -> Any:
        return self._path(f"{self.root}/{path}" if path else self.root)
