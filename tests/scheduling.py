"""In which order and by which process of pytest-xdist the tests are run."""

from __future__ import annotations

from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

HERE = "tests/integration/test_"
# files that use the same servers, of which a process starts one each (integration/conftest.py)
TOGETHER = {
    # waits more than it works: beside the others from the start
    "HDFS": (
        *("hdfs_races", "hdfs_bad_input", "hdfs_jobs", "hdfs", "hdfs_faults", "hdfs_kill_points", "hdfs_server"),
        *("hdfs_trash", "hdfs_hostile_writers", "through_hadoop", "spark_cluster", "snapshot_stores"),
    ),
    # with HDFS and S3; then Hive 4's own tables
    "HiveServer2": (
        *("day_in_the_life", "stores_of_metastore", "hiveserver_stores", "hive4_service", "hive4_faults", "servers"),
        *("hive4_rolled_back", "hive4_tables", "columns_of_metastore", "hive4_insert_only", "hive4_type_changes"),
        *("hive4_rebalance", "metastore_found", "metastore_catalogs", "trino"),
    ),
    "both metastores": (
        *("sleepers_live", "metastore_transport", "hive4_requests", "metastore_contract", "hive4_forks"),
        *("metastore_behaviour", "metastore_calls", "kerberos", "kerberos_faults", "kerberos_mit", "snapshot_locks"),
        "credentials",
    ),
    "later releases of Hive 4": ("hive4_releases",),
    "Hive 3's metastore": ("hive3_service", "queue_databases", "trino_hive3", "snapshot_hive3"),
    "Azure": ("abfs_races", "abfs_faults", "abfs_jobs", "abfs", "abfs_foreign", "abfs_kill_points", "hiveserver_abfs"),
    "Ozone": ("ozone", "ozone_races", "ozone_jobs", "hiveserver_ozone", "store_soak"),
    "S3": ("s3_race", "s3_jobs", "s3_probe", "s3_store", "s3_compaction", "s3_bad_input"),
    "Google Cloud Storage": ("gcs_race", "gcs_jobs", "gcs_store", "gcs_faults"),
    # one JVM, whose contexts begin and end
    "Spark": (
        *("spark", "spark_of_programs", "spark_read", "spark_started", "predicates_in_spark", "documented_verbs"),
        "quickstart",
    ),
}
READERS = (
    *("conformance/test_columns_of_files", "conformance/test_conversions", "integration/test_columns_random"),
    *("property/test_snapshot_random", "conformance/test_hive_pruning", "conformance/test_snapshot_types"),
    *("conformance/test_snapshot_plain", "integration/test_columns_by_name", "tooling/test_judges_hive"),
    *("conformance/test_parquet_joined", "conformance/test_forks", "conformance/test_surplus"),
)
"""Those that Hive's readers judge, of which a process starts a JVM for each release (judges/hive_reader.py)."""
GROUPS = {f"{HERE}{name}.py": group for group, names in TOGETHER.items() for name in names}
GROUPS |= {f"tests/{name}.py": "Hive's readers" for name in READERS}
LONG = (
    *("conformance/test_odd_sizes", "conformance/test_store_races", "property/test_histories"),
    *("conformance/test_types", "property/test_fuzz_recode", "integration/test_zombies"),
    *("conformance/test_java_written", "integration/test_installation"),
    *("unit/stores/renaming/test_claims", "conformance/test_output_files", "conformance/test_odd_files"),
    *("integration/test_kill_points", "integration/test_damaged_input", "conformance/test_snapshot_hive"),
)
FIRST = [*GROUPS, *(f"tests/{name}.py" for name in LONG)]
"""What takes longest is begun first, so that no process is left alone with it at the end."""


def group_of(test: str) -> str:
    """The group of a test by its id; a file that shares no server is one by itself."""
    file = test.partition("::")[0]
    return GROUPS.get(file, file)


class TogetherScheduling(LoadScopeScheduling):
    """Gives one process the files that use the same servers, and any other file as a whole."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)

    def remove_node(self, node: WorkerController) -> str | None:
        """Gives others what a process has left, and returns the test in which it ended, or None.

        That of xdist gives the test again, which ends one process after the other, and groups whose tests are done, for
        which a process that comes in its place waits for ever.
        """
        groups = self.assigned_work.pop(node).values()
        crashed, *left = [test for group in groups for test, is_done in group.items() if not is_done] or [None]
        for test in left:
            self.workqueue.setdefault(self._split_scope(test), {})[test] = False
        if crashed is not None:
            for other in self.nodes:
                self._reschedule(other)
        return crashed

    def _reschedule(self, node: WorkerController) -> None:
        """As that of xdist; but a process begins with no test before it knows what comes after it."""
        super()._reschedule(node)
        if self._pending_of(self.assigned_work[node]) == 1:
            super()._reschedule(node)
